package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cpuList is a set of processors, written as taskset writes them: 0,2-3. It is a flag
// value (pflag.Value); the zero value is "not given".
//
// Servers and generator are kept on different processors, since otherwise the generator
// takes time that the figures would blame on the server. Affinity is per thread in
// Linux and is inherited by threads and children, which is what stayOn and onProcessors
// build on.
type cpuList struct {
	set unix.CPUSet
}

func (l *cpuList) String() string {
	var out []string
	for _, cpu := range l.numbers() {
		out = append(out, strconv.Itoa(cpu))
	}
	return strings.Join(out, ",")
}

// Type implements pflag.Value.
func (l *cpuList) Type() string { return "processors" }

// Set implements pflag.Value. 1023 is the largest number that unix.CPUSet can hold.
func (l *cpuList) Set(text string) error {
	l.set.Zero()
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if errors.Join(err1, err2) != nil || from < 0 || to < from || to > 1023 {
			return fmt.Errorf("%q is no list of processors such as 0,2-3", text)
		}
		for cpu := from; cpu <= to; cpu++ {
			l.set.Set(cpu)
		}
	}
	return nil
}

// numbers returns the processors in ascending order.
func (l *cpuList) numbers() (out []int) {
	for cpu := range 1024 {
		if l.set.IsSet(cpu) {
			out = append(out, cpu)
		}
	}
	return out
}

// splitProcessors fills in what was not given: servers get one of the processors of
// this process, the generator the others; or both all, if there is but one. One for the
// servers, since a ratio on one processor depends neither on how a server spreads its
// work nor on how many processors the machine has.
//
// It looks at the processors that this process may use, not at those of the machine: in
// a container, or under taskset, these differ.
func splitProcessors(servers, generator *cpuList) error {
	var all cpuList
	if err := unix.SchedGetaffinity(0, &all.set); err != nil {
		return fmt.Errorf("asking for the processors of this process: %w", err)
	}
	numbers := all.numbers()
	if servers.set.Count() == 0 {
		servers.set.Set(numbers[0])
	}
	if generator.set.Count() > 0 {
		return nil
	}
	for _, cpu := range numbers {
		if !servers.set.IsSet(cpu) {
			generator.set.Set(cpu)
		}
	}
	if generator.set.Count() == 0 {
		generator.set = all.set
	}
	return nil
}

// stayOn keeps all threads of this process, and those to come, on some processors. Each
// thread has to be moved by itself; one that ends meanwhile (ESRCH) needs no place.
// GOMAXPROCS follows, since the Go runtime counted the processors when it started.
func stayOn(cpus cpuList) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(id, &cpus.set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("staying on the processors %s: %w", &cpus, err)
		}
	}
	runtime.GOMAXPROCS(cpus.set.Count())
	return nil
}

// onProcessors starts a child that stays on some processors: the thread takes them for
// a moment, and the child inherits them. So the child reads them when it starts, and a
// Go server sets its GOMAXPROCS by them; taskset on a running process would come too
// late for that. The calling goroutine is locked to its thread.
func onProcessors(cpus cpuList, start func() error) error {
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	if err := unix.SchedSetaffinity(0, &cpus.set); err != nil {
		return fmt.Errorf("using the processors %s: %w", &cpus, err)
	}
	err := start()
	return errors.Join(err, unix.SchedSetaffinity(0, &before))
}

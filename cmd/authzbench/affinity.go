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

// cpuList is some processors, as taskset writes them: 0,2-3.
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

// Set implements pflag.Value.
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

func (l *cpuList) numbers() (out []int) {
	for cpu := range 1024 {
		if l.set.IsSet(cpu) {
			out = append(out, cpu)
		}
	}
	return out
}

// splitProcessors fills in what was not given: servers get one of the processors
// of this process, the generator the others; or both all, if there is but one.
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

// stayOn keeps all threads of this process, and those to come, on some processors.
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

// onProcessors starts a child that stays on some processors. The calling goroutine
// is locked to its thread.
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

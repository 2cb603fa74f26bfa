package child

import (
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"understudy/authz/rehearsal/sandbox"
	"understudy/rego"
)

// Main is the whole process. It returns the exit code.
func Main(build string) int { return Run(ProcessOptions(build)) }

// ProcessOptions are the options of a process of its own.
func ProcessOptions(build string) Options {
	return Options{Build: build, Bound: Bound, Confine: confine, Exit: func() { os.Exit(exitEnding) }}
}

// Run is a process with these options, on the stream that the parent has handed over. It returns
// the exit code. It takes no signal that a terminal sends to all of a group: it ends with its
// stream.
func Run(options Options) int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	// Of a crash, the parent wants the first line.
	debug.SetTraceback("none")
	lowerPriority()
	// Priority does not help a request that finds all processors at work: with half of them
	// free, the live p99 next to an experiment that never rests was 1.2 × quiet, and 1.9 × with none.
	runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2))
	stream, err := inherited()
	if err != nil {
		return exitFailure
	}
	if err := Serve(stream, options); err != nil {
		_, _ = io.WriteString(os.Stderr, "understudy rehearse: "+err.Error()+"\n")
		return exitFailure
	}
	return 0
}

// confine is the sandbox. What is read of a file only when it is needed is read before.
func confine() error {
	_, _ = time.Now().Local().Zone()
	rego.LoadTimeZones()
	return sandbox.Enter()
}

// The exit codes. A child that has said why it ends has another one than one that fails.
const (
	exitFailure = 1
	exitEnding  = 3
)

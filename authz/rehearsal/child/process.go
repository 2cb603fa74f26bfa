package child

import (
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
)

// Main is the whole process, on the stream that the parent has handed over. It returns the
// exit code. It takes no signal that a terminal sends to all of a group: it ends with its
// stream.
func Main(build string) int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	// Of a crash, the parent wants the first line.
	debug.SetTraceback("none")
	lowerPriority()
	// Priority does not help a request that finds all processors at work: with half of them
	// free, the live p99 beside an experiment that never rests was 1.2 × quiet, and 1.9 × with none.
	runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2))
	stream, err := inherited()
	if err != nil {
		return exitFailure
	}
	if err := Serve(stream, Options{Build: build, Bound: Bound, Exit: func() { os.Exit(exitEnding) }}); err != nil {
		_, _ = io.WriteString(os.Stderr, "understudy rehearse: "+err.Error()+"\n")
		return exitFailure
	}
	return 0
}

// The exit codes. A child that has said why it ends has another one than one that fails.
const (
	exitFailure = 1
	exitEnding  = 3
)

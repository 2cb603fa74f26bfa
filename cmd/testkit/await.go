package testkit

import (
	"fmt"
	"time"
)

// Patience is how long a test waits for an event before it fails. It is long because a busy
// machine is slow, and shorter than the time limit of `go test`, so that the test can say what it
// waited for.
const Patience = 3 * time.Minute

// The pauses between two looks at what a test waits for. They grow, because a test that asks
// often takes the processor from the process that it waits for.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = time.Second
)

// T is what waiting needs of a test; *testing.T, *testing.B and *testscript.TestScript have it.
type T interface {
	Fatalf(format string, args ...any)
}

// Await returns when holds returns true. It fails the test if that takes longer than Patience:
// what says what was awaited, and each state, if any, is printed as it is then.
func Await(t T, what string, holds func() bool, state ...func() any) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	begin, pause := time.Now(), firstPause
	for !holds() {
		if time.Since(begin) > Patience {
			for _, s := range state {
				what += fmt.Sprintf("; now: %v", s())
			}
			t.Fatalf("waited %s for: %s", Patience, what)
			return
		}
		time.Sleep(pause)
		pause = min(pause*3/2, longestPause)
	}
}

// Receive returns the next value of a channel. It fails the test if none comes within Patience, or
// if the channel is closed.
func Receive[V any](t T, what string, from <-chan V) (value V) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case v, open := <-from:
		if !open {
			t.Fatalf("waited for: %s; the channel is closed", what)
		}
		return v
	case <-late.C:
		t.Fatalf("waited %s for: %s", Patience, what)
		return value
	}
}

// Closed waits until a channel is closed, such as one that says that a server is ready, or has a value that nobody
// looks at. It fails the test if that takes longer than Patience.
func Closed[V any](t T, what string, channel <-chan V) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case <-channel:
	case <-late.C:
		t.Fatalf("waited %s for: %s", Patience, what)
	}
}

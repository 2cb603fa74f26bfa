package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestPartsThatDoNotEndAreNamed next to the failure that ended the group.
func TestPartsThatDoNotEndAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, end := context.WithCancel(t.Context())
		defer end() // of the parts that do not end before
		hang := func() error { <-over.Done(); return nil }
		failure := errors.New("no disk")
		g, ctx := NewGroup(t.Context())
		g.Go("store", func() error { return failure })
		g.Go("sidecar", hang)
		g.Go("authz", hang)
		g.Go("health", func() error { <-ctx.Done(); return nil })
		<-ctx.Done()
		late, cancel := context.WithTimeout(t.Context(), time.Second) // of the bubble's clock
		defer cancel()
		err := g.Await(late)
		if !errors.Is(err, failure) || !errors.Is(err, errLate) {
			t.Fatalf("the error is %v", err)
		}
		if want := "authz, sidecar: not ended"; !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	})
}

// TestAnEndingThatIsOver leaves the process alone: who called the server goes on.
func TestAnEndingThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ending := NewEnding(10*time.Second, func() { t.Error("the process is ended") })
		ending.Begin()
		ending.Over()
		time.Sleep(time.Minute)
	})
}

// TestAnEndingIsBounded: what hangs is left, all in one time, and then the process goes.
func TestAnEndingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, end := context.WithCancel(t.Context())
		defer end() // of what hangs
		hang := func(context.Context) error { <-over.Done(); return nil }
		aborted := make(chan struct{})
		ending := NewEnding(10*time.Second, func() { close(aborted) })
		closers := &Closers{}
		closers.Add("the store", hang)
		closers.AddExport("metrics", hang)
		var log bytes.Buffer
		begin := time.Now()
		requests, cancel := ending.Requests()
		defer cancel()
		<-requests.Done()
		err := closers.Close(ending, slog.New(slog.NewTextHandler(&log, nil)))
		if !errors.Is(err, errLate) || !strings.Contains(err.Error(), "closing the store") {
			t.Errorf("the error is %v", err)
		}
		if !strings.Contains(log.String(), "what=metrics") {
			t.Errorf("the log is %q", log.String())
		}
		<-aborted
		if got := time.Since(begin); got != 10*time.Second { // of the clock of synctest
			t.Errorf("the process is ended after %v, want 10s", got)
		}
	})
}

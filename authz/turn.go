package authz

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// quantum is how long work beside the traffic goes on before the traffic has its turn:
// more than the turn costs, less than anybody waits for.
const quantum = 100 * time.Microsecond

// turns lets the traffic go first. Go's scheduler looks at the network when nothing
// else can run, otherwise every 10 ms only: a worker that always has something to do
// keeps the requests that have come since from being seen at all. So a worker rings a
// bell that only the network can hear, and waits for it. By then whatever has come is
// ready to run, and runs first.
//
// A turns belongs to one goroutine. The zero value is ready for use; close it.
type turns struct {
	since time.Time
	// bell is there from the first ring on.
	bell  io.WriteCloser
	heard chan struct{}
	// mute says that there can be no bell: a turn is what the scheduler makes of it.
	mute bool
}

// listen tells of each ring, until the bell is closed; the end of heard is its own.
func listen(r io.ReadCloser, heard chan<- struct{}) {
	defer close(heard)
	defer func() { _ = r.Close() }()
	for ring := make([]byte, 1); ; {
		if _, err := r.Read(ring); err != nil {
			return
		}
		heard <- struct{}{}
	}
}

// next gives the traffic its turn if the worker's own has lasted long enough.
func (t *turns) next() {
	if time.Since(t.since) < quantum {
		return
	}
	if !t.mute {
		t.mute = t.ring() != nil
	}
	t.begin()
}

// begin is called when the worker has had nothing to do. It goes behind everything
// that can run.
func (t *turns) begin() {
	runtime.Gosched()
	t.since = time.Now()
}

// ring returns when the network has been asked.
func (t *turns) ring() error {
	if t.bell == nil {
		r, w, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("making a pipe: %w", err)
		}
		t.bell, t.heard = w, make(chan struct{})
		go listen(r, t.heard)
	}
	if _, err := t.bell.Write([]byte{0}); err != nil {
		return fmt.Errorf("ringing: %w", err)
	}
	<-t.heard
	return nil
}

// close ends the listener and waits for it.
func (t *turns) close() {
	if t.bell == nil {
		return
	}
	_ = t.bell.Close()
	for range t.heard { // until it is gone
	}
}

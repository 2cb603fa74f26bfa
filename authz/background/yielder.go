package background

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// quantum is how long work off the request path goes on before it yields: more than
// yielding costs, less than anybody waits for.
const quantum = 100 * time.Microsecond

// Yielder lets requests that have arrived run before a worker goes on. Go's scheduler
// looks at the network when nothing else can run, otherwise every 10 ms only: a worker
// that always has something to do keeps the requests that have come since from being
// seen at all. So the worker writes one byte to a pipe and waits until the netpoller
// delivers it; goroutines made ready by then run first.
//
// A Yielder belongs to one goroutine. The zero value is ready for use; close it.
type Yielder struct {
	// NoPipe says that the scheduler alone decides who runs next: there can be no pipe, or nobody knows of
	// pipes, as in a bubble of testing/synctest.
	NoPipe bool

	since time.Time
	// pipe is there from the first write on.
	pipe io.WriteCloser
	// delivered gets a value for each byte that was read; it is closed when the reader ends.
	delivered chan struct{}
}

// read sends a value for each byte until the pipe is closed, and closes delivered then.
func read(pipe io.ReadCloser, delivered chan<- struct{}) {
	defer close(delivered)
	defer func() { _ = pipe.Close() }()
	for one := make([]byte, 1); ; {
		if _, err := pipe.Read(one); err != nil {
			return
		}
		delivered <- struct{}{}
	}
}

// Yield lets others run if the worker has gone on for 100 µs.
func (y *Yielder) Yield() {
	if time.Since(y.since) < quantum {
		return
	}
	if !y.NoPipe {
		y.NoPipe = y.poll() != nil
	}
	y.Begin()
}

// Begin is called when the worker has had nothing to do. It goes behind everything
// that can run.
func (y *Yielder) Begin() {
	runtime.Gosched()
	y.since = time.Now()
}

// poll returns when the netpoller has looked at the network.
func (y *Yielder) poll() error {
	if y.pipe == nil {
		r, w, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("making a pipe: %w", err)
		}
		y.pipe, y.delivered = w, make(chan struct{})
		go read(r, y.delivered)
	}
	if _, err := y.pipe.Write([]byte{0}); err != nil {
		return fmt.Errorf("writing to the pipe: %w", err)
	}
	<-y.delivered
	return nil
}

// Close ends the reader of the pipe and waits for it.
func (y *Yielder) Close() {
	if y.pipe == nil {
		return
	}
	_ = y.pipe.Close()
	for range y.delivered { // until it is gone
	}
}

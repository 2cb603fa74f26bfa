package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"understudy/authz/rehearsal/wire"
)

// Options say how a child is run. The zero value is one within another process, for tests.
type Options struct {
	// Build has to be that of the parent.
	Build string
	// Bound applies the bounds of the parent to the process, which then collects garbage as they
	// need it. Nil applies none.
	Bound func(wire.Hello)
	// Confine takes from the process what it needs no more, before it reads the first policy. What
	// fails is reported to the parent, and the process goes on. Nil confines nothing, and reports nothing.
	Confine func() error
	// Exit ends the process. Nil closes the stream.
	Exit func()
	// Before is called before each decision, in its goroutine, with the request: for tests.
	// Nil does nothing.
	Before func(context.Context, wire.DecisionRequest)
}

// Serve does what a parent asks over a stream, until that ends or is closed. A clean end of
// the stream is no error.
func Serve(stream io.ReadWriteCloser, options Options) error {
	c := &child{conn: wire.NewConn(stream), options: options, lanes: make(map[uint64]*lane), policies: newPolicies(), calls: newCalls()}
	defer c.close()
	if err := c.greet(); err != nil {
		return err
	}
	for {
		f, err := c.conn.Receive()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("receiving: %w", err)
		}
		if err := c.take(f); err != nil {
			return err
		}
	}
}

// child is the process. Its lanes belong to the goroutine that receives.
type child struct {
	conn    *wire.Conn
	options Options
	hello   wire.Hello
	// requests is how all lanes read what they are asked about.
	requests *requests
	lanes    map[uint64]*lane
	policies *policies
	caches   *cacheRoom
	calls    *calls
	watchdog *watchdog
	running  sync.WaitGroup
	// ending says that the process ends by itself.
	ending atomic.Bool
}

// greet takes the parent's first frame.
func (c *child) greet() error {
	f, err := c.conn.Receive()
	if err != nil {
		return fmt.Errorf("waiting for the parent: %w", err)
	}
	if f.Kind != wire.KindHello {
		return wire.ErrFrame
	}
	if err := wire.Unmarshal(f.Payload, &c.hello); err != nil {
		return err
	}
	if c.hello.Build != c.options.Build {
		return fmt.Errorf("the parent is another build: %q, and this is %q", c.hello.Build, c.options.Build)
	}
	if c.options.Bound != nil {
		c.options.Bound(c.hello)
	}
	ready := c.confine()
	if c.requests, err = newRequests(c.hello); err != nil {
		return err
	}
	c.caches = newCacheRoom(c.hello.Memory)
	c.watchdog = newWatchdog(c)
	c.running.Go(c.watchdog.run)
	return c.conn.Send(wire.Frame{Kind: wire.KindReady, Payload: wire.Marshal(ready)})
}

// confine confines the process, and returns what the parent has to know of that.
func (c *child) confine() (ready wire.Ready) {
	if c.options.Confine == nil {
		return ready
	}
	if err := c.options.Confine(); err != nil {
		ready.Unconfined = err.Error()
	}
	return ready
}

// take does what one frame says, or hands it to its lane.
func (c *child) take(f wire.Frame) error {
	switch f.Kind {
	case wire.KindPing:
		return c.conn.Send(wire.Frame{Kind: wire.KindPong, Job: f.Job})
	case wire.KindAnswer:
		return c.calls.answer(f)
	case wire.KindClose:
		if l := c.lanes[f.Lane]; l != nil {
			l.close()
			delete(c.lanes, f.Lane)
		}
		return nil
	case wire.KindCompile, wire.KindTest, wire.KindEvaluate, wire.KindBlame, wire.KindTrace, wire.KindItems, wire.KindShow, wire.KindCompare:
		return c.lane(f.Lane).offer(f)
	}
	return wire.ErrFrame
}

// lane returns the lane of a number, begun now if there is none.
func (c *child) lane(number uint64) *lane {
	l := c.lanes[number]
	if l == nil {
		l = newLane(c, number)
		c.lanes[number] = l
		c.watchdog.add(l)
		c.running.Go(l.run)
	}
	return l
}

// close cancels what is under way. It does not wait for what cannot be cancelled if the
// process ends anyhow.
func (c *child) close() {
	for _, l := range c.lanes {
		l.close()
	}
	if c.watchdog != nil {
		c.watchdog.close()
	}
	_ = c.conn.Close()
	if c.options.Exit == nil && !c.ending.Load() {
		c.running.Wait()
	}
}

// end says why the process ends now, and ends it.
func (c *child) end(cause wire.Cause, lane, job uint64, memory int64) {
	if !c.ending.CompareAndSwap(false, true) {
		return
	}
	_ = c.conn.SendLast(wire.Frame{
		Kind: wire.KindEnding, Lane: lane, Job: job, Payload: wire.Marshal(wire.Exit{Cause: cause, Memory: memory}),
	})
	if c.options.Exit != nil {
		c.options.Exit()
	}
	_ = c.conn.Close()
}

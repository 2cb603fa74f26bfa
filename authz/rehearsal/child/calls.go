package child

import (
	"context"
	"net/url"
	"sync"

	"understudy/authz"
	"understudy/authz/rehearsal/wire"
)

// services asks the parent to call external services, for the request of a frame: tokens
// and replies of the live policy are there.
type services struct {
	lane  *lane
	frame wire.Frame
}

// Call implements authz.Services.
func (s services) Call(ctx context.Context, to *url.URL, body []byte, _ bool) authz.ServiceReply {
	call := wire.Call{URL: to.String(), Body: body}
	a, ok := s.lane.child.calls.ask(ctx, s.lane.child.conn, s.frame, call)
	if !ok {
		return authz.ServiceReply{Outcome: authz.ServiceFailed}
	}
	return authz.ServiceReply{Outcome: authz.ServiceOutcome(a.Outcome), Message: a.Message}
}

// Reused implements authz.Services: the parent counts.
func (s services) Reused(context.Context) {}

// calls are the calls of external services that the parent has been asked for.
type calls struct {
	mu   sync.Mutex
	last uint64
	// waiting :: number of a call → who waits for its answer.
	waiting map[uint64]chan wire.Answer
}

func newCalls() *calls { return &calls{waiting: make(map[uint64]chan wire.Answer)} }

// ask asks the parent for a call, for the job of a frame. It reports false if ctx ends
// before there is an answer.
func (c *calls) ask(ctx context.Context, conn *wire.Conn, f wire.Frame, call wire.Call) (wire.Answer, bool) {
	answer := make(chan wire.Answer, 1)
	c.mu.Lock()
	c.last++
	call.Call = c.last
	c.waiting[call.Call] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, call.Call)
	}()
	if conn.Send(wire.Frame{Kind: wire.KindCall, Lane: f.Lane, Job: f.Job, Payload: wire.Marshal(call)}) != nil {
		return wire.Answer{}, false
	}
	select {
	case a := <-answer:
		return a, true
	case <-ctx.Done():
		return wire.Answer{}, false
	}
}

// answer hands an answer to who waits for it, if anybody does any more.
func (c *calls) answer(f wire.Frame) error {
	var a wire.Answer
	if err := wire.Unmarshal(f.Payload, &a); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting := c.waiting[a.Call]; waiting != nil {
		waiting <- a
	}
	return nil
}

package port

import (
	"context"
	"net/http"
	"sync"
	"time"

	"understudy/admin/access"
)

// unknownCall is a call whose caller is not known, and may become so.
type unknownCall struct {
	unknown *Unknown
	slot    *slot
	// on is its connection, and control what ends waits for it.
	on      *unknownConnection
	control *http.ResponseController
	cancel  context.CancelFunc
	// http1 says that nothing but this call is on the connection, until when its body may come.
	http1 bool
	until time.Time

	mu sync.Mutex
	// timer ends what the call waits for: first for its body, then for its answer.
	timer *time.Timer
	// known says that nothing is bounded any more, and ended that the call is over or was ended:
	// its connection is not touched then.
	known, ended bool
	// sent says that the whole body is here, tooLate that it may not come any more, and reading
	// that somebody waits for it.
	sent, tooLate, reading bool
	// asked are the deadlines that anyone who serves the call has asked for. They count once its
	// caller is known.
	asked deadlines
}

// deadlines are those of a connection; zero where there is none.
type deadlines struct{ read, write time.Time }

// begin takes a slot for a call. The request that it returns has the bounds.
func (u *Unknown) begin(w http.ResponseWriter, r *http.Request) (*unknownCall, *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	c := &unknownCall{unknown: u, control: http.NewResponseController(w), cancel: cancel, sent: r.Body == http.NoBody}
	c.on, c.http1, c.until = ctx.Value(connectionKey{}).(*unknownConnection), r.ProtoMajor == 1, time.Now().Add(unknownTime)
	c.on.called()
	r = r.WithContext(access.NewUnknown(ctx, c.becomesKnown))
	if !c.sent {
		r.Body = &unknownBody{ReadCloser: r.Body, call: c, left: unknownSize}
	}
	c.mu.Lock()
	c.timer = time.AfterFunc(unknownTime, c.late)
	c.mu.Unlock()
	c.slot = u.calls.enter(addressOf(r.RemoteAddr), 1, c.end)
	return c, r
}

// becomesKnown lifts the bounds of the call and of its connection.
func (c *unknownCall) becomesKnown() {
	c.mu.Lock()
	if c.known || c.ended {
		c.mu.Unlock()
		return
	}
	c.known = true
	c.timer.Stop()
	c.setAsked()
	c.mu.Unlock()
	c.unknown.calls.leave(c.slot)
	c.on.becomesKnown()
	c.on.endTurn()
}

// setAsked sets the deadlines that were asked for. It needs the lock.
func (c *unknownCall) setAsked() {
	if !c.asked.read.IsZero() {
		_ = c.control.SetReadDeadline(c.asked.read)
	}
	if c.http1 || !c.asked.write.IsZero() { // a connection of HTTP/1 has that of the answer before
		_ = c.control.SetWriteDeadline(c.asked.write)
	}
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// late ends the wait for the body, so that the call is answered, and later the call. A body for
// which nobody waits yet may still be that of somebody known.
func (c *unknownCall) late() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known || c.ended {
		return
	}
	if c.tooLate = true; c.reading {
		_ = c.control.SetReadDeadline(past)
	}
	c.timer = time.AfterFunc(unknownAnswerTime, c.end)
}

// end ends the call, for one that takes its slot or because its time is over: whatever it
// waits for fails, be it the client or another server.
func (c *unknownCall) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known || c.ended {
		return
	}
	c.ended = true
	c.timer.Stop()
	c.cancel()
	if !c.on.known.Load() {
		_ = c.on.Close()
		return
	}
	_ = c.control.SetReadDeadline(past)
	_ = c.control.SetWriteDeadline(past)
}

// over gives the slot back when the call was answered. On HTTP/1 net/http reads what is left of
// a body before it sends the answer.
func (c *unknownCall) over() {
	c.mu.Lock()
	if !c.known && !c.sent && c.http1 {
		_ = c.control.SetReadDeadline(c.until)
	}
	c.ended = true
	c.timer.Stop()
	c.mu.Unlock()
	c.cancel()
	c.unknown.calls.leave(c.slot)
	c.on.endTurn()
}

// setReadDeadline and setWriteDeadline are for anyone who serves the call.
func (c *unknownCall) setReadDeadline(at time.Time) error {
	return c.ask(&c.asked.read, at, c.control.SetReadDeadline)
}

func (c *unknownCall) setWriteDeadline(at time.Time) error {
	return c.ask(&c.asked.write, at, c.control.SetWriteDeadline)
}

// ask sets a deadline, or keeps it until the caller is known.
func (c *unknownCall) ask(asked *time.Time, at time.Time, set func(time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return context.Canceled
	}
	*asked = at
	if !c.known {
		return nil
	}
	return set(at)
}

// isKnown reports whether nothing is bounded.
func (c *unknownCall) isKnown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

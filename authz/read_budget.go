package authz

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
)

// DefaultBodyMemory is how much memory what is read of bodies may take unless it is said
// otherwise, in bytes.
const DefaultBodyMemory = 64 << 20

// BodyMemory bounds the memory that what is read of bodies takes, in all requests that
// are under way: a body of a megabyte may become a hundred. It is safe for concurrent
// use.
type BodyMemory struct {
	limit int64
	// offPath is how much of it work off the request path may take.
	offPath int64
	taken   atomic.Int64
}

// NewBodyMemory returns a bound, in bytes; zero means 64 MiB.
func NewBodyMemory(limit int64) *BodyMemory {
	limit = cmp.Or(limit, DefaultBodyMemory)
	return &BodyMemory{limit: limit, offPath: limit / 2}
}

// OffPath sets how much of it work off the request path may take, in bytes: half, unless this is
// called, before the first use. What is too large for the whole bound is refused as that,
// anyone who asks.
func (m *BodyMemory) OffPath(bytes int64) *BodyMemory {
	m.offPath = bytes
	return m
}

// Taken is how much is taken, in bytes, as it is estimated.
func (m *BodyMemory) Taken() int64 { return m.taken.Load() }

// take takes memory, as long as no more than limit is taken.
func (m *BodyMemory) take(bytes, limit int64) bool {
	if m.taken.Add(bytes) <= limit {
		return true
	}
	m.taken.Add(-bytes)
	return false
}

// errBodyMemory: so much is being read already that there is no room for another body.
var errBodyMemory = errors.New("no memory to read the body")

// errBodySize is of a body that would not even be read if it were the only one.
var errBodySize = &BadRequest{Reason: "The body is too large to be read."}

// reasonBodyMemory is the reason of FailureOverloaded.
const reasonBodyMemory = "There is no memory to read the body: too many are being read. Send it again, or raise --body-memory."

// ReadBudget is what one decision, or one work off the request path, may spend on reading a
// request. It is used by one goroutine; a nil one bounds nothing.
type ReadBudget struct {
	ctx    context.Context
	memory *BodyMemory
	// limit is how much of the memory may be taken, by everybody, for this to get some.
	limit int64
	// most is how much this may take.
	most  int64
	taken int64
	// request is whose body is read.
	request *Request
}

// Read returns the reading of a live decision on a request, which ends with End.
func (m *BodyMemory) Read(ctx context.Context, r *Request) *ReadBudget {
	return &ReadBudget{ctx: ctx, memory: m, limit: m.limit, most: m.limit, request: r}
}

// ReadOffPath returns the reading of a work off the request path: half of the memory, or what
// OffPath leaves, is out of its reach, so that it never costs a live decision its body. It
// ends with End.
func (m *BodyMemory) ReadOffPath(ctx context.Context, r *Request) *ReadBudget {
	return &ReadBudget{ctx: ctx, memory: m, limit: m.offPath, most: m.offPath, request: r}
}

// AtMost bounds what the reading may take, in bytes, further.
func (r *ReadBudget) AtMost(bytes int64) *ReadBudget {
	r.most = min(r.most, bytes)
	return r
}

// Take asks for memory, in bytes, before it is used. It is given back when the decision
// has been made. The error says that there is none, that there never is as much, or that
// time is up; it is for the caller to return.
func (r *ReadBudget) Take(bytes int64) error {
	switch {
	case r == nil:
		return nil
	case r.ctx.Err() != nil:
		return r.ctx.Err()
	case bytes > r.memory.limit:
		return errBodySize
	case r.taken+bytes > r.most || !r.memory.take(bytes, r.limit):
		return errBodyMemory
	}
	r.taken += bytes
	r.request.parsed.Add(bytes)
	return nil
}

// Err returns why reading should not go on: the error of its context.
func (r *ReadBudget) Err() error {
	if r == nil {
		return nil
	}
	return r.ctx.Err()
}

// End gives the memory back.
func (r *ReadBudget) End() {
	r.memory.taken.Add(-r.taken)
	r.taken = 0
}

// Unreadable is the denial of a request that has no input document, by why it has none.
func Unreadable(err error) Decision {
	switch {
	case errors.Is(err, errBodyMemory):
		return Failed(FailureOverloaded, reasonBodyMemory)
	case errors.Is(err, context.DeadlineExceeded):
		return Failed(FailureDeadline, "Reading the request ran out of time.")
	case errors.Is(err, context.Canceled):
		return Failed(FailureCanceled, reasonCanceled)
	}
	return badRequest(err)
}

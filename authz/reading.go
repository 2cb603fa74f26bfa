package authz

import (
	"context"
	"errors"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
)

// defaultBodyMemory is how much memory what is read of bodies may take, in bytes.
const defaultBodyMemory = 64 << 20

// bodyMemory bounds the memory that what is read of bodies takes, in all requests that
// are under way: a body of a megabyte may become a hundred. It is safe for concurrent
// use.
type bodyMemory struct {
	limit int64
	taken atomic.Int64
}

// take takes memory, as long as no more than limit is taken.
func (m *bodyMemory) take(bytes, limit int64) bool {
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

// Reading is what one decision, or one work beside the traffic, may spend on reading a
// request. It is used by one goroutine; a nil one bounds nothing.
type Reading struct {
	ctx    context.Context
	memory *bodyMemory
	// limit is how much of the memory may be taken, by everybody, for this to get some.
	limit int64
	// most is how much this may take.
	most  int64
	taken int64
	// request is whose body is read.
	request *Request
}

// newReading returns the reading of a live decision about a request. It is ended by end.
func (m *bodyMemory) newReading(ctx context.Context, r *Request) *Reading {
	return &Reading{ctx: ctx, memory: m, limit: m.limit, most: m.limit, request: r}
}

// newReadingBeside returns the reading of a work beside the traffic: half of the memory
// is out of its reach, so that it never costs a live decision its body.
func (m *bodyMemory) newReadingBeside(ctx context.Context, r *Request) *Reading {
	return &Reading{ctx: ctx, memory: m, limit: m.limit / 2, most: m.limit / 2, request: r}
}

// Take asks for memory, in bytes, before it is used. It is given back when the decision
// has been made. The error says that there is none, that there never is as much, or that
// time is up; it is for the caller to return.
func (r *Reading) Take(bytes int64) error {
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
func (r *Reading) Err() error {
	if r == nil {
		return nil
	}
	return r.ctx.Err()
}

// end gives the memory back.
func (r *Reading) end() {
	r.memory.taken.Add(-r.taken)
	r.taken = 0
}

// unreadable is the denial of a request that has no input document.
func unreadable(err error) Decision {
	switch {
	case errors.Is(err, errBodyMemory):
		return failed(FailureOverloaded, reasonBodyMemory)
	case errors.Is(err, context.DeadlineExceeded):
		return failed(FailureDeadline, "Reading the request ran out of time.")
	case errors.Is(err, context.Canceled):
		return failed(FailureCanceled, reasonCanceled)
	}
	return badRequest(err)
}

// observeBodyMemory registers the gauge of the memory that is taken.
func observeBodyMemory(meter metric.Meter, m *bodyMemory) error {
	gauge, err := meter.Int64ObservableGauge("understudy.body.memory", metric.WithUnit("By"),
		metric.WithDescription("Memory that what is being read of bodies takes, of --body-memory, as it is estimated."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(gauge, m.taken.Load())
		return nil
	}, gauge)
	return err
}

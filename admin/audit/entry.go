package audit

import (
	"context"
	"errors"
	"sync"

	"understudy/admin/access"
)

// Call is what the edge of an API knows of a call before it is made.
type Call struct {
	// Method is the full name of the RPC without a slash before it, such as
	// understudy.admin.v1.PolicyPreview/CreatePolicy, or of the Policyfile API the method and
	// the route, such as PUT /policy_groups/:group.
	Method string
	// Resource is the name of what is to be changed, as the caller sent it.
	Resource string
}

// Entry is what is known of one call under way. All methods of a nil Entry do nothing, so the
// domain need not know whether a call is recorded. It is safe for concurrent use.
type Entry struct {
	recorder *Recorder
	ctx      context.Context
	call     Call
	who      access.Principal

	mu sync.Mutex
	// reserved says that the event has its place, validateOnly that nothing is to be changed.
	reserved, validateOnly bool
	// ended says that the event was written, or that there is no place for it.
	ended                            bool
	resource                         string
	etagBefore, etagAfter, operation string
}

// entryKey is the key of the Entry in a context.
type entryKey struct{}

// FromContext returns the entry of the call of a context; nil if it is not recorded.
func FromContext(ctx context.Context) *Entry {
	e, _ := ctx.Value(entryKey{}).(*Entry)
	return e
}

// ErrNoPlace says that a change was not made since the queue has no place for its event.
var ErrNoPlace = errors.New("there is no place for the event of a change")

// Reserve takes a place for the event of a call that is about to change something, unless it
// has one. The error is ErrNoPlace if there has to be one, and is none: then nothing may be
// changed.
func (e *Entry) Reserve() error {
	if e == nil || !e.recorder.required {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reserved {
		return nil
	}
	if e.ended {
		return ErrNoPlace
	}
	if e.reserved = e.recorder.places.Reserve(false); e.reserved {
		return nil
	}
	e.ended = true // it is counted as refused, and cannot be written
	e.recorder.counts.add(e.ctx, refused)
	return ErrNoPlace
}

// ValidateOnly says that the call only validates (AIP-163), so nothing is to be changed.
func (e *Entry) ValidateOnly() {
	e.note(func() { e.validateOnly = true })
}

// Resource says which resource the call is about, in the place of what the caller sent.
func (e *Entry) Resource(name string) {
	e.note(func() { e.resource = name })
}

// Changed says which etag the resource had before the call and has after it, each empty if
// there is no resource.
func (e *Entry) Changed(before, after string) {
	e.note(func() { e.etagBefore, e.etagAfter = before, after })
}

// Operation names the operation of the call.
func (e *Entry) Operation(name string) {
	e.note(func() { e.operation = name })
}

// note keeps something that is known of the call.
func (e *Entry) note(keep func()) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	keep()
}

// End writes the event with the outcome of the call: the status of an error, or OK. Only the
// first call of it counts.
func (e *Entry) End(err error) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return
	}
	e.ended = true
	e.recorder.write(e, err)
}

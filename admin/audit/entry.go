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
	// reserved is how many events have their slot, made says that something has changed, or
	// may have, and validateOnly that nothing is to be changed.
	reserved           int
	made, validateOnly bool
	// ended says that the event was written, or that there is no slot for it.
	ended               bool
	resource, operation string
	etags               Etags
	bindings            []BindingDelta
	fields              []FieldChange
}

// Etags are those of a resource around a call, each empty if there was no resource then.
type Etags struct{ Before, After string }

// entryKey is the key of the Entry in a context.
type entryKey struct{}

// FromContext returns the entry of the call of a context; nil if it is not recorded.
func FromContext(ctx context.Context) *Entry {
	e, _ := ctx.Value(entryKey{}).(*Entry)
	return e
}

// ErrNoSlot says that a change was not made since the queue has no slot for its event.
var ErrNoSlot = errors.New("there is no slot for the event of a change")

// Reserve takes the slots for the events of a call that is about to change something, as far
// as it has none. The error is ErrNoSlot if there have to be some, and are none: then nothing
// may be changed.
func (e *Entry) Reserve() error {
	if e == nil || !e.recorder.required {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return ErrNoSlot
	}
	missing := e.events() - e.reserved
	if missing <= 0 {
		return nil
	}
	if e.recorder.slots.Reserve(missing, false) {
		e.reserved += missing
		return nil
	}
	e.recorder.slots.Release(e.reserved, false)
	e.reserved, e.ended = 0, true // it is counted as refused, and cannot be written
	e.recorder.counts.add(e.ctx, refused, 1)
	return ErrNoSlot
}

// Made says that the call has changed something, or that nobody knows whether it has.
func (e *Entry) Made() {
	e.note(func() { e.made = true })
}

// ValidateOnly says that the call only validates (AIP-163), so nothing is to be changed.
func (e *Entry) ValidateOnly() {
	e.note(func() { e.validateOnly = true })
}

// Resource says which resource the call is about, in place of what the caller sent.
func (e *Entry) Resource(name string) {
	e.note(func() { e.resource = name })
}

// Changed says which etag the resource had before the call and has after it.
func (e *Entry) Changed(etags Etags) {
	e.note(func() { e.etags = etags })
}

// Operation names the operation of the call.
func (e *Entry) Operation(name string) {
	e.note(func() { e.operation = name })
}

// Bindings says what the change that is about to be made gives to whom, and takes from whom.
func (e *Entry) Bindings(deltas []BindingDelta) {
	e.note(func() { e.bindings = deltas })
}

// Fields says which fields of a configuration, or of an acceptance, the change sets.
func (e *Entry) Fields(changes []FieldChange) {
	e.note(func() { e.fields = changes })
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

package authz

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"understudy/rego"
)

// Projector makes what a policy can read of one request's input document. It is
// immutable and safe for concurrent use.
type Projector interface {
	// Key appends to b a text that two requests at one moment share only if a policy of the
	// set cannot tell their inputs apart. The same request always has the same at that
	// moment. It reports false if there is none, or the context is done before it is made:
	// decisions on the request are not cached then.
	Key(ctx context.Context, set *ReadSet, now time.Time, b []byte) ([]byte, bool)
	// Input makes the input document with no more of it than the set names. The error
	// is as that of a Request's Source.
	Input(reading *Reading, set *ReadSet) (rego.Input, error)
}

// Fingerprint is the SHA-256 of what a policy reads of a request, or finds out about it at
// the request's time: requests of one fingerprint are decided alike. A caller, who chooses the
// input, cannot make two requests share one.
type Fingerprint [sha256.Size]byte

// mostKeyed is the size of the largest request that has a fingerprint, in bytes. The document of
// a larger one may be too large to verify by it what is cached.
const mostKeyed = 4 << 20

// Fingerprint returns the fingerprint of what a set takes of the request. It reports false
// if there is none: the set takes the whole, the request is a reservation or larger than 4 MiB, its
// front knows no text for it, or the context is done before it is made. It is made once for all who
// ask.
func (r *Request) Fingerprint(ctx context.Context, set *ReadSet) (Fingerprint, bool) {
	if r.Size > mostKeyed {
		return Fingerprint{}, false
	}
	p := r.project(set)
	if p == nil {
		return Fingerprint{}, false
	}
	r.projecting.Lock()
	defer r.projecting.Unlock()
	if !p.sought {
		p.seek(ctx, r.Time)
	}
	return p.fingerprint, p.keyed
}

// projection is what one read set takes of a request. Its input is safe for concurrent use.
type projection struct {
	set       *ReadSet
	projector Projector
	input     madeInput

	// The request's projecting guards what follows.
	fingerprint Fingerprint
	// keyed says that there is a fingerprint, and sought that it is known whether there is.
	keyed, sought bool
}

// maxKeptKey is the size of the largest buffer that is kept, in bytes: a body may be in
// a key.
const maxKeptKey = 64 << 10

// keys are buffers for the keys of projections.
var keys = sync.Pool{New: func() any { b := make([]byte, 0, 2048); return &b }}

// project returns what a set takes of the request; nil if it takes the whole, or more
// than the input: a reservation. It is made once for all policies that take the same.
func (r *Request) project(set *ReadSet) *projection {
	if !r.projects(set) {
		return nil
	}
	r.projecting.Lock()
	defer r.projecting.Unlock()
	for _, p := range r.projected {
		if p.set.name == set.name {
			return p
		}
	}
	if r.projected == nil {
		r.projected = r.room[:0]
	}
	p := &projection{set: set, projector: r.Projector}
	r.projected = append(r.projected, p)
	return p
}

// projects reports whether a set takes less than the whole request.
func (r *Request) projects(set *ReadSet) bool {
	return r.Projector != nil && r.Reservation == nil && set != nil && !set.Whole()
}

// seek makes the fingerprint. That there was no time for it is not kept: the next one may have more.
func (p *projection) seek(ctx context.Context, now time.Time) {
	buffer := keys.Get().(*[]byte)
	*buffer, p.keyed = p.projector.Key(ctx, p.set, now, (*buffer)[:0])
	if p.keyed {
		p.fingerprint = sha256.Sum256(*buffer)
	}
	p.sought = p.keyed || ctx.Err() == nil
	if cap(*buffer) <= maxKeptKey {
		keys.Put(buffer)
	}
}

// InputOf returns the input document with no more of it than a set takes, or the whole if
// there is no such; made on first use. The error is as that of a Source.
func (r *Request) InputOf(reading *Reading, set *ReadSet) (rego.Input, error) {
	if p := r.project(set); p != nil {
		return p.document(reading)
	}
	return r.Input(reading)
}

// document returns the input document, made on first use.
func (p *projection) document(reading *Reading) (rego.Input, error) {
	return p.input.once(func() (rego.Input, error) { return p.projector.Input(reading, p.set) })
}

// madeInput is an input document that is made on first use. It is safe for concurrent
// use.
type madeInput struct {
	mu    sync.Mutex
	made  bool
	input rego.Input
	err   error
}

// once returns the document, made now if it has not been. That there was no memory or no
// time for it is not kept: the next one may have more of both.
func (m *madeInput) once(source func() (rego.Input, error)) (rego.Input, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made {
		return m.input, m.err
	}
	// A source that panics leaves this to the policies that ask after it.
	m.made, m.err = true, errSourcePanicked
	m.input, m.err = source()
	m.made = m.err == nil || Unreadable(m.err).Failure == FailureRequest
	return m.input, m.err
}

var errSourcePanicked = errors.New("making the input document panicked")

// ReadSet is what a compiled policy can read of its input.
type ReadSet struct {
	*rego.Reads
	// name is the canonical form: sets of one name are equal.
	name    string
	derived atomic.Value
}

// NewReadSet returns the set of what a compiled policy reads.
func NewReadSet(reads *rego.Reads) *ReadSet { return &ReadSet{Reads: reads, name: reads.String()} }

// Derived returns what a front has derived of the set: derive's value, made on first
// use. All fronts of a process derive the same type.
func (s *ReadSet) Derived(derive func(*rego.Reads) any) any {
	if v := s.derived.Load(); v != nil {
		return v
	}
	v := derive(s.Reads)
	s.derived.Store(v)
	return v
}

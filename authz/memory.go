package authz

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"understudy/rego"
)

// memory holds decisions that a compiled policy has made. A policy whose rules are
// repeatable gives the same decision for the same projected input, so it need not be
// asked again. Each compiled policy has its own: a commit begins with an empty one.
//
// A request is known by the SHA-256 of its projection, so that a caller, who chooses
// the input, cannot make two requests share a decision, and no token stays in memory
// longer than its request. What is kept is bounded in bytes as well as in number, for
// a policy may make its decisions of what the caller sends. A decision is used from the moment at which it was made
// until the first moment at which it would be another. Failures to evaluate are never
// kept.
//
// It is safe for concurrent use.
type memory struct {
	decisions *otter.Cache[fingerprint, remembered]
	distinct  distinct
}

// fingerprint is the SHA-256 of a projection's key.
type fingerprint [sha256.Size]byte

// remembered is a decision with the time, in nanoseconds since 1970, from and until
// which it is right.
type remembered struct {
	decision    *Decision
	from, until int64
	// weight is about the size of the decision, in bytesPerDecision.
	weight uint32
}

// bytesPerDecision is the room that a memory has for each of its decisions, in the
// bytes of the canonical form. A larger one takes the room of several.
const bytesPerDecision = 1 << 10

// newMemory returns a memory of a number of decisions; of fewer if they are large.
func newMemory(size int) (*memory, error) {
	cache, err := otter.New(&otter.Options[fingerprint, remembered]{
		MaximumWeight: uint64(size),
		Weigher:       func(_ fingerprint, r remembered) uint32 { return r.weight },
	})
	if err != nil {
		return nil, err
	}
	return &memory{decisions: cache}, nil
}

// find returns the decision for a fingerprint at a moment.
func (m *memory) find(f fingerprint, now time.Time) (Decision, bool) {
	known, ok := m.decisions.GetIfPresent(f)
	if !ok {
		return Decision{}, false
	}
	if at := now.UnixNano(); at < known.from || at >= known.until {
		return Decision{}, false
	}
	return *known.decision, true
}

// keep remembers a decision that was made at a moment. It returns the decision as it
// will be found.
func (m *memory) keep(f fingerprint, d Decision, now time.Time) Decision {
	if !d.until.After(now) || !lasting(d.Failure) {
		return d
	}
	until := d.until.UnixNano()
	d.until = time.Time{}
	form, shareable := canonical(d)
	one := &d
	if shareable && len(form) <= maxShared {
		one = m.distinct.one(d, form)
	}
	m.decisions.Set(f, remembered{
		decision: one, from: now.UnixNano(), until: until, weight: uint32(1 + len(form)/bytesPerDecision),
	})
	return *one
}

// maxShared is the size of the largest decision that is kept once for all requests and
// has a rendering, in bytes. Whatever else is made of decisions hangs on renderings, so
// that none of it holds large ones.
const maxShared = 4 << 10

// maxDistinct is how many decisions are kept apart. Policies whose decisions differ
// more than that, such as by a header for each user, share none of the rest.
const maxDistinct = 4096

// distinct holds one of all decisions that are equal: a policy makes few that are not.
// It holds no large ones, since it forgets none.
type distinct struct {
	mu sync.Mutex
	// known :: canonical form → the decision.
	known map[string]*Decision
}

// one returns a decision that is equal to d, whose canonical form is given, and may be
// shared.
func (s *distinct) one(d Decision, form string) *Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[form]; known != nil {
		return known
	}
	d.rendering = &Rendering{}
	if len(s.known) < maxDistinct {
		if s.known == nil {
			s.known = make(map[string]*Decision)
		}
		s.known[form] = &d
	}
	return &d
}

// canonical returns a text that two decisions share only if all their fields are
// equal. It reports false if there is none.
func canonical(d Decision) (string, bool) {
	if _, bare := d.Value.(bool); bare && d.Plain && d.Metadata == nil {
		return fmt.Sprint(d.Verdict, d.Failure, "\x00", d.Rule, "\x00", d.Reason), true
	}
	text, err := json.Marshal(d)
	// JSON writes all bytes that are no UTF-8 alike.
	return string(text), err == nil && !bytes.Contains(text, []byte(`\ufffd`))
}

// lasting reports whether a failure is a property of policy and input, so that it
// would be the same again.
func lasting(f Failure) bool { return f == "" || f == FailureUndefined || f == FailureType }

// defaultMemory is the number of decisions that a live policy remembers.
const defaultMemory = 64 << 10

// giveMemory gives each policy of a snapshot that was compiled for it a memory. An
// experiment that becomes the live policy keeps what it remembers: it is the same
// policy.
func (s *Sidecar) giveMemory(next *snapshot) {
	if s.config.Memory < 0 {
		return
	}
	for _, e := range next.policies {
		for i := range e.experiments {
			s.remember(e.experiments[i].policy, max(1, s.config.Memory/4))
		}
		s.remember(e.live.policy, s.config.Memory)
	}
}

func (s *Sidecar) remember(p *Policy, size int) {
	switch {
	case p == nil || !p.repeatable || p.NoOp() || p.reads.Whole():
	case p.memory == nil:
		var err error
		if p.memory, err = newMemory(size); err != nil {
			s.log.Error("decisions are not remembered", "error", err)
		}
	default:
		p.memory.decisions.SetMaximum(uint64(size))
	}
}

// Rendering is a place in which a front keeps what it has made of a remembered
// decision. It is safe for concurrent use.
type Rendering struct{ value atomic.Value }

// Load returns what was stored, or nil.
func (r *Rendering) Load() any { return r.value.Load() }

// Store stores a value, always of the same type.
func (r *Rendering) Store(value any) { r.value.Store(value) }

// Rendering returns the place of a decision that is remembered; nil if it is not, or is
// large.
func (d Decision) Rendering() *Rendering { return d.rendering }

// forever is the until of a decision that changes only with its input.
var forever = time.Unix(0, math.MaxInt64)

// ReadSet is what a compiled policy can read of its input.
type ReadSet struct {
	*rego.Reads
	// name is the canonical form: sets of one name are equal.
	name    string
	derived atomic.Value
}

func newReadSet(reads *rego.Reads) *ReadSet { return &ReadSet{Reads: reads, name: reads.String()} }

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

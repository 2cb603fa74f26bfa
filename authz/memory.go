package authz

import (
	"crypto/sha256"
	"math"
	"time"

	"github.com/maypok86/otter/v2"
)

// memory holds decisions that a compiled policy has made. A policy whose rules are
// repeatable gives the same decision for the same projected input, so it need not be
// asked again. Each compiled policy has its own: a commit begins with an empty one.
//
// A request is known by the SHA-256 of its projection, so that a caller, who chooses
// the input, cannot make two requests share a decision, and no token stays in memory
// longer than its request. What is kept is bounded in bytes as well as in number, for
// a policy may make its decisions of what the caller sends. A decision is used from the
// moment at which it was made until the first moment at which it would be another.
// Failures to evaluate are never kept.
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

// keep remembers a decision that was made at a moment, up to the moment that the
// decision names. It returns the decision as it will be found.
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

// forever is the until of a decision that changes only with its input.
var forever = time.Unix(0, math.MaxInt64)

// lasting reports whether a failure is a property of policy and input, so that it
// would be the same again.
func lasting(f Failure) bool { return f == "" || f == FailureUndefined || f == FailureType }

// defaultMemory is the number of decisions that a live policy remembers.
const defaultMemory = 64 << 10

// giveMemory gives each policy of a snapshot that was compiled for it a memory. An
// experiment that becomes the live policy keeps what it remembers: it is the same
// policy. One that is equal to the live policy shares its memory.
func (s *Sidecar) giveMemory(next *snapshot) {
	if s.config.Memory < 0 {
		return
	}
	for _, e := range next.policies {
		for _, experiment := range e.experiments {
			if experiment.policy != e.live.policy {
				s.remember(experiment.policy, max(1, s.config.Memory/4))
			}
		}
		s.remember(e.live.policy, s.config.Memory)
	}
}

// remember gives a policy a memory of a size, if its decisions can be remembered. What
// the one that it has holds stays, as far as there is room.
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

package rehearsal

import (
	"slices"
	"sync"

	"understudy/authz/cache"
	"understudy/authz/rehearsal/supervisor"
)

// maxVerified is how many live policies are kept compiled in the rehearsal process, for
// their decisions to be verified: each takes some of its memory.
const maxVerified = 4

// verifiedPolicies are the live policies that the rehearsal process has compiled, those
// asked last first. They are safe for concurrent use.
type verifiedPolicies struct {
	process *supervisor.Supervisor

	mu    sync.Mutex
	known []verifiedPolicy
}

type verifiedPolicy struct {
	policy    *cache.Policy
	candidate *supervisor.Candidate
}

// of returns the live policy in the rehearsal process.
func (v *verifiedPolicies) of(live *Version) *supervisor.Candidate {
	v.mu.Lock()
	defer v.mu.Unlock()
	one := verifiedPolicy{policy: live.Policy}
	i := slices.IndexFunc(v.known, func(known verifiedPolicy) bool { return known.policy == live.Policy })
	switch {
	case i >= 0:
		one = v.known[i]
		v.known = slices.Delete(v.known, i, i+1)
	default:
		one.candidate = v.process.NewCandidate(live.Source, supervisor.Options{Name: live.Name + " (verification)"})
	}
	v.known = slices.Insert(v.known, 0, one)
	if len(v.known) > maxVerified {
		v.known[maxVerified].candidate.Close()
		v.known = v.known[:maxVerified]
	}
	return one.candidate
}

// close ends all of them.
func (v *verifiedPolicies) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, known := range v.known {
		known.candidate.Close()
	}
	v.known = nil
}

package evidence

import evidencepb "understudy/authz/evidence/v1"

const (
	// maxReplayed is how many live policies are told apart of requests that were replayed: what
	// earlier ones were replayed for is of no use to anybody.
	maxReplayed = 2
	// maxReplayedGroups is how many groups there are of such requests.
	maxReplayedGroups = 50
)

// Replayed counts the comparisons of a tally on requests from before its experiment was ACTIVE.
// They are counted apart from all others. It is safe for concurrent use.
type Replayed struct {
	tally      *Tally
	policyEtag string
}

// Replayed begins to count a replay for a live policy.
func (t *Tally) Replayed(policyEtag string) *Replayed { return &Replayed{t, policyEtag} }

// Count is as that of a Tally.
func (r *Replayed) Count(c Comparison) (explain bool) {
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	return r.counter().add(c, millis(c.Request.Time))
}

// Drop is as that of a Tally.
func (r *Replayed) Drop(reason string) {
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	r.counter().drop(reason)
}

// Explain is as that of a Tally.
func (r *Replayed) Explain(compared Comparison, causes []*evidencepb.Cause) {
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	r.counter().explain(compared, causes)
}

// End says that the replay is over: what it came to is published at once.
func (r *Replayed) End() {
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	r.tally.replayEnded = true
}

// counter returns the counter of the replay. The lock of the tally is held.
func (r *Replayed) counter() *counter {
	t := r.tally
	c := known(t.replayed, r.policyEtag)
	if c == nil {
		c = newCounter(r.policyEtag)
		t.replayed = append(t.replayed, c)
	}
	return c
}

// takeReplayed returns what was replayed since the last time. A counter that had nothing to
// count goes: there is one replay of a pair in a process.
func (t *Tally) takeReplayed() []*evidencepb.Pair {
	var out []*evidencepb.Pair
	kept := t.replayed[:0]
	for _, c := range t.replayed {
		counted := !c.counts.none()
		p := c.flush()
		out = append(out, p)
		if counted {
			kept = append(kept, c)
		}
	}
	clear(t.replayed[len(kept):])
	t.replayed = kept
	return out
}

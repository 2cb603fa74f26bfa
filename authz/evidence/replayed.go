package evidence

import evidencepb "understudy/authz/evidence/v1"

const (
	// maxReplayed is for how many live policies replayed requests are kept apart: what
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
func (r *Replayed) Count(c Comparison) (ask Unexplained, explain bool) {
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	return r.pair().compared(c, r.tally.content.UID)
}

// Drop is as that of a Tally.
func (r *Replayed) Drop(reason string) {
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	r.pair().dropped(reason, 0)
}

// Explain is as that of a Tally.
func (r *Replayed) Explain(of Unexplained, result ExplainResult, causes []*evidencepb.Cause) {
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	r.pair().explain(of, result, causes)
}

// End says that the replay is over: what it came to is published at once.
func (r *Replayed) End() {
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	r.tally.replayEnded = true
}

// pair returns what the replay comes to. The lock of the tally is held.
func (r *Replayed) pair() *pair { return pairIn(r.tally.sum.replayed, r.policyEtag) }

package evidence

import evidencepb "understudy/authz/evidence/v1"

// Total adds up evidence of one content of an experiment, as [Merge] does with the same result,
// but piece by piece: of what was added, only the sum is kept. It is not safe for concurrent
// use.
type Total struct {
	sum *sum
	// records are those that were added to a pair.
	records map[*pair]*records
}

// NewTotal returns a total without evidence.
func NewTotal() *Total { return &Total{newSum(), make(map[*pair]*records)} }

// Add adds evidence, which is not modified and may not be either.
func (t *Total) Add(e *evidencepb.Evidence) { t.sum.add(e) }

// AddTotal adds another total, which is not used any more.
func (t *Total) AddTotal(other *Total) {
	other.takeRecords()
	if other.sum.head != nil {
		t.sum.add(other.sum.evidence())
	}
}

// Evidence returns the sum within its bounds; nil if nothing was added. The total is not used
// any more.
func (t *Total) Evidence() *evidencepb.Evidence {
	if t.sum.head == nil {
		return nil
	}
	t.takeRecords()
	t.sum.bound()
	out := t.sum.evidence()
	fit(out, MaxSum)
	return out
}

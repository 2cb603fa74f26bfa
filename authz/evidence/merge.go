package evidence

import (
	"google.golang.org/protobuf/proto"

	evidencepb "understudy/authz/evidence/v1"
)

const (
	// MaxRecord is how large what a tally publishes may be, in bytes as a message. With what
	// Redis keeps beside it that is within 32 KiB: the next size that Redis allocates is 40. It
	// has 100 to 150 groups, and with twice of it the first report of 1,000 nodes, all of which
	// have as many, would take more than 0.3 s.
	MaxRecord = 32_000
	// MaxSum is how large evidence that was merged may be, in bytes as a message.
	MaxSum = 256 << 10
)

// Merge adds evidence to other evidence of the same content of an experiment; an empty one
// takes the content of the first. Evidence of another content is left out. Counts are exact,
// in whichever order and in how many steps evidence is merged: the six counts are all requests
// compared, groups and other are all that differ, endpoints and other endpoints are all
// requests. Of a pair there are at most 200 groups; paths are folded again, more than 16
// children of a place to `*`. The result is at most MaxSum large. What is merged is not
// modified.
//
// Points are those of nodes that run: who keeps a sum for good drops them,
// and ends the examining of requests.
func Merge(into *evidencepb.Evidence, from ...*evidencepb.Evidence) {
	s := newSum()
	if into.GetExperimentEtag() != "" || into.GetUid() != "" {
		s.add(into)
	}
	for _, e := range from {
		s.add(e)
	}
	s.bound()
	out := s.evidence()
	fit(out, MaxSum)
	proto.Reset(into)
	into.Experiment, into.Uid, into.ExperimentEtag, into.Final = out.Experiment, out.Uid, out.ExperimentEtag, out.Final
	into.Pairs, into.Earlier, into.Points, into.Replayed = out.Pairs, out.Earlier, out.Points, out.Replayed
	into.PublishTime, into.PublishInterval = out.PublishTime, out.PublishInterval
}

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

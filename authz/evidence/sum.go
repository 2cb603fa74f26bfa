package evidence

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	evidencepb "understudy/authz/evidence/v1"
)

const (
	// maxPairs is how many live policies are told apart.
	maxPairs = 4
	// maxEndpoints, maxRules, maxDrops and maxChangedData are bounds of a pair.
	maxEndpoints   = 1024
	maxRules       = 512
	maxDrops       = 32
	maxChangedData = 20
	// maxPoints is how many minutes are kept.
	maxPoints = 60
)

// sum adds up evidence of one content of an experiment. What goes in is never modified.
type sum struct {
	// head is the evidence without pairs and points; nil of an empty sum.
	head *evidencepb.Evidence
	// pairs :: etag of the live policy → what was compared with it.
	pairs   map[string]*pair
	earlier *pair
	// points :: beginning of a minute → counts.
	points map[int64]*counts
	// replayed :: etag of the live policy → what was replayed for it.
	replayed map[string]*pair
	// patterns are those of the node that counts; nil of a sum of several.
	patterns *Patterns
}

func newSum() *sum {
	return &sum{pairs: make(map[string]*pair), points: make(map[int64]*counts), replayed: make(map[string]*pair)}
}

// newTaken returns a sum of what was counted by patterns.
func newTaken(patterns *Patterns) *sum {
	s := newSum()
	s.patterns = patterns
	return s
}

// add adds evidence, unless it is of another content of the experiment than what is there.
func (s *sum) add(e *evidencepb.Evidence) {
	if s.head == nil {
		s.head = &evidencepb.Evidence{Experiment: e.GetExperiment(), Uid: e.GetUid(), ExperimentEtag: e.GetExperimentEtag(), Final: e.GetFinal()}
	}
	if e.GetUid() != s.head.Uid || e.GetExperimentEtag() != s.head.ExperimentEtag {
		return
	}
	s.head.PublishTime = laterTime(s.head.PublishTime, e.GetPublishTime())
	if e.GetPublishInterval().AsDuration() > s.head.PublishInterval.AsDuration() {
		s.head.PublishInterval = e.GetPublishInterval()
	}
	for _, p := range e.GetPairs() {
		s.pair(p.GetPolicyEtag()).add(p)
	}
	if e.GetEarlier() != nil {
		s.early().add(e.GetEarlier())
	}
	for _, p := range e.GetPoints() {
		s.point(p.GetStart(), countsOf(p.GetCounts()))
	}
	for _, p := range e.GetReplayed() {
		pairIn(s.replayed, p.GetPolicyEtag()).add(p)
	}
}

// gain adds evidence and stays within its bounds.
func (s *sum) gain(e *evidencepb.Evidence) {
	s.add(e)
	s.bound()
}

// gainSum adds another sum and stays within its bounds.
func (s *sum) gainSum(other *sum) {
	if other.head != nil {
		s.gain(other.evidence())
	}
}

// counted reports whether there is a request in the sum.
func (s *sum) counted() bool {
	for _, p := range s.pairs {
		if !p.counts.none() {
			return true
		}
	}
	return s.earlier != nil && !s.earlier.counts.none()
}

func (s *sum) pair(policyEtag string) *pair { return pairIn(s.pairs, policyEtag) }

// pairIn returns the pair of a live policy, made if there is none.
func pairIn(pairs map[string]*pair, policyEtag string) *pair {
	if pairs[policyEtag] == nil {
		pairs[policyEtag] = newPair()
	}
	return pairs[policyEtag]
}

func (s *sum) early() *pair {
	if s.earlier == nil {
		s.earlier = newPair()
	}
	return s.earlier
}

func (s *sum) point(start int64, n counts) {
	if s.points[start] == nil {
		s.points[start] = new(counts)
	}
	for kind, requests := range n {
		s.points[start][kind] += requests
	}
}

// bound moves what there is no room for to where it is counted as other. The result is the
// same in whichever order evidence was added, unless something had to go before.
func (s *sum) bound() {
	var crowds map[string]crowd
	if s.patterns != nil {
		crowds = s.patterns.crowds()
	}
	for _, etag := range etags(s.replayed)[min(maxReplayed, len(s.replayed)):] {
		delete(s.replayed, etag)
	}
	for _, p := range s.replayed {
		p.bound(crowds)
		p.boundGroups(maxReplayedGroups)
	}
	for _, etag := range etags(s.pairs)[min(maxPairs, len(s.pairs)):] {
		s.early().merge(s.pairs[etag])
		delete(s.pairs, etag)
	}
	for _, p := range s.pairs {
		p.bound(crowds)
	}
	if s.earlier != nil {
		s.earlier.bound(crowds)
	}
	if len(s.points) > maxPoints {
		for _, start := range slices.Sorted(maps.Keys(s.points))[:len(s.points)-maxPoints] {
			delete(s.points, start)
		}
	}
}

// etags returns those of pairs, the one that was compared last first.
func etags(pairs map[string]*pair) []string {
	return slices.SortedFunc(maps.Keys(pairs), func(a, b string) int {
		return cmp.Or(cmp.Compare(pairs[b].latest(), pairs[a].latest()), cmp.Compare(a, b))
	})
}

// evidence returns the sum. Its parts are shared: what is changed has to be replaced.
func (s *sum) evidence() *evidencepb.Evidence {
	e := &evidencepb.Evidence{}
	if s.head != nil {
		e.Experiment, e.Uid, e.ExperimentEtag, e.Final = s.head.Experiment, s.head.Uid, s.head.ExperimentEtag, s.head.Final
		e.PublishTime, e.PublishInterval = s.head.PublishTime, s.head.PublishInterval
	}
	for _, etag := range etags(s.pairs) {
		e.Pairs = append(e.Pairs, s.pairs[etag].message(etag))
	}
	for _, etag := range etags(s.replayed) {
		e.Replayed = append(e.Replayed, s.replayed[etag].message(etag))
	}
	if s.earlier != nil {
		e.Earlier = s.earlier.message("")
	}
	for _, start := range slices.Sorted(maps.Keys(s.points)) {
		e.Points = append(e.Points, &evidencepb.Point{Start: start, Counts: countsMessage(*s.points[start])})
	}
	return e
}

// milliseconds returns a time in Unix milliseconds; 0 for nil.
func milliseconds(t *timestamppb.Timestamp) int64 {
	if t == nil {
		return 0
	}
	return t.AsTime().UnixMilli()
}

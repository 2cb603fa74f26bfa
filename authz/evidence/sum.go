package evidence

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	evidencepb "understudy/authz/evidence/v1"
)

const (
	// MaxRecord is how large what a tally publishes may be, in bytes as a message. With what
	// Redis adds to it that is within 32 KiB: the next size that Redis allocates is 40. It
	// has 100 to 150 groups, and with twice of it the first report of 1,000 nodes, all of which
	// have as many, would take more than 0.3 s.
	MaxRecord = 32_000
	// MaxSum is how large a sum may be, in bytes as a message.
	MaxSum = 256 << 10
	// maxPairs is how many live policies are kept apart.
	maxPairs = 4
	// maxPoints is how many minutes are kept.
	maxPoints    = 60
	minuteMillis = 60_000
)

// Sum is what the comparisons with one content of an experiment come to, in bounded memory: those
// that are counted one by one, and evidence of others. Each request that was compared is in one
// count of a live policy; groups and other are all that differ, endpoints and other endpoints all
// that were compared, in whichever order and in how many steps they were added. It is not safe
// for concurrent use.
type Sum struct {
	content Content
	// published is the time of the latest evidence that was added, and interval the longest.
	published *timestamppb.Timestamp
	interval  *durationpb.Duration
	// pairs :: etag of the live policy → what was compared with it.
	pairs   map[string]*pair
	earlier *pair
	// points :: beginning of a minute, in Unix seconds → counts.
	points map[int64]*counts
	// minute is the beginning of that of the last comparison, and now its counts; nil if they are not
	// among the points any more.
	minute int64
	now    *counts
	// patterns are those of the node that counts; nil of a sum of several.
	patterns *Patterns
	// kept are path patterns that are not folded. The pairs have the same map.
	kept map[string]bool
}

// Content is one content of an experiment: the resource name and the unique ID of the experiment, and the etag
// of the content.
type Content struct{ Experiment, UID, Etag string }

// NewSum returns an empty sum of a content of an experiment. Patterns are those of the comparisons that are counted; nil if evidence alone is
// added.
func NewSum(of Content, patterns *Patterns) *Sum {
	return &Sum{
		content: of, patterns: patterns,
		pairs: make(map[string]*pair), points: make(map[int64]*counts), kept: make(map[string]bool),
	}
}

// Count counts a comparison with a live policy. It reports whether the causes of the difference should be found, which
// [Sum.Explain] is then told: they are not known for its reasons, or the reasons are not known, and the request is one
// of a sample.
func (s *Sum) Count(policyEtag string, c Comparison) (ask Unexplained, explain bool) {
	s.point(millis(c.Request.Time))[c.Outcome.cell]++
	return s.pair(policyEtag).compared(c, s.content.UID)
}

// Drop counts a request that was not compared.
func (s *Sum) Drop(policyEtag string, d Drop) {
	s.point(millis(d.Time))[dropped]++
	s.pair(policyEtag).dropped(d.Reason, d.Weight)
}

// lose counts requests that were counted, but not published.
func (s *Sum) lose(policyEtag string, n int64, now time.Time) {
	s.point(millis(now))[dropped] += n
	p := s.pair(policyEtag)
	p.requests.add(weighted{counts{dropped: n}, counts{dropped: n}, counts{dropped: n}})
	p.dropFor(lost, n)
}

// Explain notes what became of an attempt to find causes, and the causes if they were found.
func (s *Sum) Explain(policyEtag string, of Unexplained, result ExplainResult, causes []*evidencepb.Cause) {
	s.pair(policyEtag).explain(of, result, causes)
}

// SetExamined replaces how many requests are still to be examined for items, and how many
// could not be, since the experiment is compared with a live policy.
func (s *Sum) SetExamined(policyEtag string, pending, unexamined int64) {
	s.pair(policyEtag).now = examinations{pending, unexamined}
}

// SetWaiting replaces how many requests wait to be compared with a live policy, and how many they stand
// for.
func (s *Sum) SetWaiting(policyEtag string, n, weight int64) { s.pair(policyEtag).waits(n, weight) }

// SetItems replaces what requests have shown of the items in which the experiment and a live policy
// differ. The message may not be modified any more.
func (s *Sum) SetItems(policyEtag string, m *evidencepb.Items) {
	s.pair(policyEtag).items = []*evidencepb.Items{m}
}

// Keep sets the path patterns that are not folded, of which there are at most maxKeptPaths.
func (s *Sum) Keep(paths []string) {
	clear(s.kept)
	for _, path := range paths[:min(maxKeptPaths, len(paths))] {
		s.kept[path] = true
	}
}

// Add adds evidence, which may not be modified any more. It is left out, and false returned, if it
// is of another content of the experiment.
func (s *Sum) Add(e *evidencepb.Evidence) bool {
	if e.GetUid() != s.content.UID || e.GetExperimentEtag() != s.content.Etag {
		return false
	}
	s.published = laterTime(s.published, e.GetPublishTime())
	if e.GetPublishInterval().AsDuration() > s.interval.AsDuration() {
		s.interval = e.GetPublishInterval()
	}
	for _, path := range e.GetKeptPaths() {
		if len(s.kept) < maxKeptPaths {
			s.kept[path] = true
		}
	}
	for _, p := range e.GetPairs() {
		s.pairOf(p.GetPolicyEtag()).add(p)
	}
	if e.GetEarlier() != nil {
		s.early().add(e.GetEarlier())
	}
	for _, p := range e.GetPoints() {
		s.point(p.GetStart() * 1000).add(countsOf(p.GetCounts()))
	}
	return true
}

// AddSum adds another sum of the same content, which is not used any more.
func (s *Sum) AddSum(other *Sum) { s.Add(other.message()) }

// Evidence returns the sum within its bounds; it is at most MaxSum large.
func (s *Sum) Evidence() *evidencepb.Evidence {
	s.bound()
	e := s.message()
	fit(e, MaxSum)
	return e
}

// EndExaminations says that nothing is evaluated for coverage any more: requests that were to be could
// not be.
func (s *Sum) EndExaminations() {
	for _, p := range s.all() {
		p.endExaminations()
	}
}

// all returns all pairs.
func (s *Sum) all() []*pair {
	out := slices.Collect(maps.Values(s.pairs))
	if s.earlier != nil {
		out = append(out, s.earlier)
	}
	return out
}

// pair returns that of a live policy, and makes room for it.
func (s *Sum) pair(policyEtag string) *pair {
	if s.pairs[policyEtag] == nil && len(s.pairs) >= slack*maxPairs {
		s.bound()
	}
	return s.pairOf(policyEtag)
}

// pairOf returns the pair of a live policy, made if there is none.
func (s *Sum) pairOf(policyEtag string) *pair {
	if s.pairs[policyEtag] == nil {
		s.pairs[policyEtag] = newPair(s.kept)
	}
	return s.pairs[policyEtag]
}

func (s *Sum) early() *pair {
	if s.earlier == nil {
		s.earlier = newPair(s.kept)
	}
	return s.earlier
}

// point returns the counts of the minute of a time in Unix milliseconds.
func (s *Sum) point(at int64) *counts {
	start := at / minuteMillis * minuteMillis / 1000
	if s.now != nil && s.minute == start {
		return s.now
	}
	n := s.points[start]
	if n == nil {
		if len(s.points) >= slack*maxPoints {
			s.boundPoints()
		}
		n = &counts{}
		s.points[start] = n
	}
	s.minute, s.now = start, n
	return n
}

// bound folds the excess into the "other" counts. The result is the
// same in whichever order evidence was added, unless something had to go before.
func (s *Sum) bound() {
	var crowds map[string]crowd
	if s.patterns != nil {
		crowds = s.patterns.crowds()
	}
	for _, etag := range etags(s.pairs)[min(maxPairs, len(s.pairs)):] {
		s.early().add(s.pairs[etag].message(""))
		delete(s.pairs, etag)
	}
	for _, p := range s.pairs {
		p.bound(crowds)
	}
	if s.earlier != nil {
		s.earlier.bound(crowds)
	}
	s.boundPoints()
}

// forgetPoints forgets the minutes that began before a time.
func (s *Sum) forgetPoints(before time.Time) {
	s.now = nil
	maps.DeleteFunc(s.points, func(start int64, _ *counts) bool { return start <= before.Unix()-60 })
}

// boundPoints keeps the last minutes.
func (s *Sum) boundPoints() {
	s.now = nil
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

// message returns the sum. Examples and causes are shared: what is changed has to be replaced.
func (s *Sum) message() *evidencepb.Evidence {
	e := &evidencepb.Evidence{
		Experiment: s.content.Experiment, Uid: s.content.UID, ExperimentEtag: s.content.Etag, PublishTime: s.published, PublishInterval: s.interval,
		KeptPaths: slices.Sorted(maps.Keys(s.kept)),
	}
	for _, etag := range etags(s.pairs) {
		e.Pairs = append(e.Pairs, s.pairs[etag].message(etag))
	}
	if s.earlier != nil {
		e.Earlier = s.earlier.message("")
	}
	for _, start := range slices.Sorted(maps.Keys(s.points)) {
		e.Points = append(e.Points, &evidencepb.Point{Start: start, Counts: countsMessage(*s.points[start])})
	}
	return e
}

// millis returns a time in Unix milliseconds; 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

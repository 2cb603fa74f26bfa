package evidence

import (
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
)

// Tally counts the comparisons with one content of an experiment in this process: exactly, and
// in bounded memory. It is safe for concurrent use.
type Tally struct {
	experiment, uid, etag string
	patterns              *Patterns

	mu sync.Mutex
	// id is the tally's name in the store, where it is published under ever higher serials.
	id     string
	serial int64
	// counters are those of the live policies that were compared since the last snapshot, and
	// of the present one. Mostly that is one.
	counters []*counter
	points   minutes
	// replayed are those of the live policies for which requests from before were replayed.
	// Mostly that is none or one.
	replayed []*counter
	// replayEnded says that a replay has ended since the last publication.
	replayEnded bool
	// taken is what was taken from the counters since the tally has its id, and unsaved the
	// part of it that no publication has which is known to be stored.
	taken, unsaved *sum
	// unknown is the publication of which it is not known whether the store has it, nil if
	// there is none, and later what was taken from the counters since it was made.
	unknown *authz.PublishedEvidence
	later   *sum
	// pair is the counter of the time that is ACTIVE now, since when; nil while it is not.
	pair  *counter
	since int64
	// ended is when the experiment was no longer ACTIVE; zero before.
	ended time.Time
	// published is when the store last answered, or when it was made.
	published time.Time
	// shown says that comparisons were published.
	shown bool
	// changed says that there is something beside counts that was never taken.
	changed bool
	// final is the serial of the first final publication; 0 before.
	final int64
	// behind says that more was counted before the store took what was due, or that it was
	// counted beside what was settled.
	behind bool
}

// NewTally returns a tally of an experiment: its resource name, its unique ID, and the etag of
// its content.
func NewTally(experiment, uid, etag string, patterns *Patterns) *Tally {
	return &Tally{
		experiment: experiment, uid: uid, etag: etag, patterns: patterns,
		id: uuid.NewString(), taken: newTaken(patterns), unsaved: newTaken(patterns), later: newTaken(patterns), published: time.Now(),
	}
}

// Patterns are those that the patterns of comparisons come from.
func (t *Tally) Patterns() *Patterns { return t.patterns }

// Is reports whether the tally is that of a content of an experiment.
func (t *Tally) Is(uid, etag string) bool { return t.uid == uid && t.etag == etag }

// Count counts a comparison with a live policy. It reports whether somebody should find out the
// causes of the difference: none are known, and the request is an example of its group, or the
// group has doubled since somebody was asked.
func (t *Tally) Count(policyEtag string, c Comparison) (explain bool) {
	at := millis(c.Request.Time)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.points.add(at, c.Outcome.cell)
	return t.counter(policyEtag).add(c, at)
}

// millis returns a time in Unix milliseconds; 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Drop counts a comparison that was not made, at the time of the request.
func (t *Tally) Drop(policyEtag, reason string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counter(policyEtag).drop(reason)
	t.points.add(millis(at), dropped)
}

// drop counts a comparison that was not made.
func (c *counter) drop(reason string) {
	c.counts[dropped]++
	if _, known := c.drops[reason]; !known && len(c.drops) >= maxDrops {
		reason = "other"
	}
	c.drops[reason]++
}

// Explain sets the causes of the difference that a comparison is one of.
func (t *Tally) Explain(policyEtag string, compared Comparison, causes []*evidencepb.Cause) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counter(policyEtag).explain(compared, causes)
	t.changed = t.changed || len(causes) > 0
}

// explain sets the causes of the group of a comparison.
func (c *counter) explain(compared Comparison, causes []*evidencepb.Cause) {
	g := c.known(groupKey{compared.groupPattern(), compared.Outcome.key()})
	if g == nil || len(causes) == 0 {
		return
	}
	g.causes = nil
	for _, cause := range causes[:min(maxCauses, len(causes))] {
		g.causes = append(g.causes, &evidencepb.Cause{File: clip(cause.GetFile(), maxFile), Line: cause.GetLine(), Text: clip(cause.GetText(), maxCause)})
	}
	g.explained = true
}

// MarkChanged says that there is something to set beside counts, which should not wait for the
// next interval.
func (t *Tally) MarkChanged() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = true
}

// SetCoverage replaces what is known of the rules in which the experiment and a live policy
// differ, and of the paths of data in which they do; more says how many rules there are beside
// those given. A rule that was ever evaluated stays so.
func (t *Tally) SetCoverage(policyEtag string, rules []*evidencepb.Rule, more int64, changedData []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counter(policyEtag)
	c.rules, c.changed, c.moreRules = nil, nil, more+int64(max(0, len(rules)-maxRules))
	for _, r := range rules[:min(maxRules, len(rules))] {
		c.rules = append(c.rules, &evidencepb.Rule{
			Side: r.GetSide(), File: clip(r.GetFile(), maxFile), Line: r.GetLine(), Name: clip(r.GetName(), maxRule),
			EvaluatedTrue: r.GetEvaluatedTrue(), EvaluatedFalse: r.GetEvaluatedFalse(),
		})
	}
	for _, path := range changedData[:min(maxChangedData, len(changedData))] {
		c.changed = append(c.changed, clip(path, maxDataRef))
	}
}

// SetExamined replaces how many requests are still to be evaluated for coverage, and how many
// could not be.
func (t *Tally) SetExamined(policyEtag string, pending, unexamined int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counter(policyEtag)
	c.pending, c.unexamined = pending, unexamined
}

// AddNoise counts a request that the live policy decided twice, with the difference between the
// two.
func (t *Tally) AddNoise(policyEtag string, d authz.Difference) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counter(policyEtag)
	if c.noise == nil {
		c.noise = &evidencepb.Noise{Kinds: make(map[int32]int64)}
	}
	c.noise.Sampled++
	if k := kindOf(d); k != unchanged {
		c.noise.Differed++
		c.noise.Kinds[int32(k)]++
	}
}

// maxCounters is how many live policies may be compared between two snapshots before the first
// of them are taken.
const maxCounters = 8

// counter returns the counter of a live policy, by patterns as they are now.
func (t *Tally) counter(policyEtag string) *counter {
	c := known(t.counters, policyEtag)
	if c == nil {
		if len(t.counters) >= maxCounters {
			t.take(0)
		}
		c = newCounter(policyEtag)
		t.counters = append(t.counters, c)
	}
	return c
}

func known(counters []*counter, policyEtag string) *counter {
	for _, c := range counters {
		if c.policyEtag == policyEtag {
			return c
		}
	}
	return nil
}

// begin notes that the experiment is ACTIVE beside a live policy from now on; end that it is
// not any more.
func (t *Tally) begin(policyEtag string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.final != 0 && t.unknown == nil {
		t.renew(now)
	}
	t.final = 0
	t.ended = time.Time{}
	if t.pair != nil && t.pair.policyEtag == policyEtag {
		return
	}
	t.stop(now)
	t.pair, t.since = t.counter(policyEtag), now.UnixMilli()
}

func (t *Tally) end(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop(now)
	t.ended = now
}

func (t *Tally) stop(now time.Time) {
	if t.pair != nil {
		t.pair.spans = union(append(t.pair.spans, span{t.since, now.UnixMilli()}))
		t.pair = nil
	}
}

// take adds what was counted to what was taken, and begins to count anew.
func (t *Tally) take(now int64) {
	if t.pair != nil && now > 0 {
		t.pair.spans = union(append(t.pair.spans, span{t.since, now}))
	}
	e := &evidencepb.Evidence{Experiment: t.experiment, Uid: t.uid, ExperimentEtag: t.etag}
	kept := t.counters[:0]
	for _, c := range t.counters {
		p := c.flush()
		e.Pairs = append(e.Pairs, p)
		if c == t.pair || t.pair == nil && len(kept) == 0 {
			kept = append(kept, c)
		} else {
			p.Unexamined = c.pending + c.unexamined // they stay so
		}
	}
	clear(t.counters[len(kept):])
	t.counters = kept
	e.Replayed = t.takeReplayed()
	if t.unknown != nil {
		t.later.gain(e)
		return
	}
	t.taken.gain(e)
	t.unsaved.gain(e)
}

// Snapshot returns what was counted since the tally began. It is at most MaxRecord large. now
// is the time up to which the experiment is ACTIVE, if it is.
func (t *Tally) Snapshot(now time.Time) *evidencepb.Evidence {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.snapshot(now)
}

func (t *Tally) snapshot(now time.Time) *evidencepb.Evidence {
	t.take(now.UnixMilli())
	all := t.taken
	if t.later.head != nil {
		all = newTaken(t.patterns)
		all.gainSum(t.taken)
		all.gainSum(t.later)
	}
	e := all.evidence()
	for _, p := range e.Pairs {
		if c := known(t.counters, p.GetPolicyEtag()); c != nil {
			p.Pending, p.Unexamined = c.pending, p.Unexamined+c.unexamined
		}
	}
	e.Points = t.points.messages(now.UnixMilli())
	e.PublishTime = timestamppb.New(now)
	fit(e, MaxRecord-recordSlack)
	return e
}

// recordSlack is for the fields of evidence that are set last.
const recordSlack = 64

package evidence

import (
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
)

// Tally counts the comparisons with one content of an experiment in this process: exactly, and
// in bounded memory. What it has counted is published whole each time, and a later publication
// replaces the one before. A final publication ends that for good, and what is counted after it is
// published under another ID. It is safe for concurrent use.
type Tally struct {
	content  Content
	patterns *Patterns
	expects  Expectations
	// started is when the process did.
	started time.Time

	mu sync.Mutex
	// sum is what was counted since the present ID began, and kept are the path patterns that are not folded.
	sum  *Sum
	kept []string
	publications
	// policyEtag is that of the live policy that the experiment is compared with, since when in Unix
	// milliseconds; empty while it is not.
	policyEtag string
	since      int64
	// ended is when the experiment was no longer ACTIVE; zero before.
	ended time.Time
	// changed says that something besides counts is not published yet.
	changed bool
}

// NewTally returns a tally of a content of an experiment, with what that expects. It is published by the [Ledger]
// that has it.
func NewTally(of Content, expects Expectations, patterns *Patterns) *Tally {
	t := &Tally{content: of, expects: expects, patterns: patterns}
	t.renew(time.Now())
	return t
}

// Patterns are those that the patterns of comparisons come from.
func (t *Tally) Patterns() *Patterns { return t.patterns }

// Expectations are those of the content.
func (t *Tally) Expectations() Expectations { return t.expects }

// Content is what the tally counts the comparisons with.
func (t *Tally) Content() Content { return t.content }

// Count is [Sum.Count].
func (t *Tally) Count(policyEtag string, c Comparison) (ask Unexplained, explain bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests++
	return t.sum.Count(policyEtag, c)
}

// Drop is [Sum.Drop].
func (t *Tally) Drop(policyEtag string, d Drop) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests++
	t.sum.Drop(policyEtag, d)
}

// Explain is [Sum.Explain].
func (t *Tally) Explain(policyEtag string, of Unexplained, result ExplainResult, causes []*evidencepb.Cause) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Explain(policyEtag, of, result, causes)
	t.changed = t.changed || result == Found
}

// Keep sets the path patterns whose requests are counted by these names, however many other paths there are: those of
// groups that were accepted. The names themselves are kept by [Patterns.Keep].
func (t *Tally) Keep(paths []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = paths
	t.sum.Keep(paths)
}

// MarkChanged says that there is something new besides counts, which should not wait for the
// next interval.
func (t *Tally) MarkChanged() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = true
}

// refresh calls [Active.Refresh] between two publications.
func (t *Tally) refresh(set func(*Sum)) {
	if set == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	set(t.sum)
}

// AddNoise counts a request that the live policy decided twice, with the difference between the
// two.
func (t *Tally) AddNoise(policyEtag string, d authz.Difference) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.pair(policyEtag).decidedTwice(d)
}

// begin notes that the experiment is compared with a live policy from now on; end that it is
// not any more.
func (t *Tally) begin(policyEtag string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = time.Time{}
	if t.policyEtag == policyEtag {
		return
	}
	t.stop(now)
	t.policyEtag, t.since = policyEtag, now.UnixMilli()
}

func (t *Tally) end(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop(now)
	t.ended = now
}

// stop ends the time that is ACTIVE now.
func (t *Tally) stop(now time.Time) {
	if t.policyEtag != "" {
		t.spend(now)
		t.sum.pair(t.policyEtag).endExaminations()
		t.sum.pair(t.policyEtag).waits(0, 0) // what comes yet is counted when it does
		t.policyEtag = ""
	}
}

// spend adds the time up to now to that in which the experiment was ACTIVE.
func (t *Tally) spend(now time.Time) {
	p := t.sum.pair(t.policyEtag)
	p.active = union(append(p.active, span{t.since, now.UnixMilli()}))
}

// Snapshot returns what was counted. It is at most MaxRecord large. now is the time up to which
// the experiment is ACTIVE, if it is.
func (t *Tally) Snapshot(now time.Time) *evidencepb.Evidence {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.snapshot(now)
}

func (t *Tally) snapshot(now time.Time) *evidencepb.Evidence {
	if t.policyEtag != "" {
		t.spend(now)
	}
	t.sum.forgetPoints(now.Add(-time.Hour))
	t.sum.bound()
	e := t.sum.message()
	e.PublishTime = timestamppb.New(now)
	if !t.started.IsZero() {
		e.StartTime = timestamppb.New(t.started)
	}
	fit(e, MaxRecord-recordSlack)
	return e
}

// recordSlack is for the fields of evidence that are set last.
const recordSlack = 64

package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/explain"
)

const (
	// maxBroken is how many broken records are named.
	maxBroken = 20
	// maxGroups bounds the groups of drift, and of examples.
	maxGroups = 200
)

// groupKey names a group of differences.
type groupKey struct {
	difference   authz.Difference
	method, path string
	rule, reason string
}

// counts counts what was judged, in the order of the files. It is used by one goroutine.
type counts struct {
	*replay
	out      Result
	patterns *evidence.Patterns
	expects  evidence.Expectations
	sum      *evidence.Sum
	skipped  map[string]int64
	missing  map[missingKey]*lackingField
	drift    map[DriftGroup]*DriftGroup
	example  *examples
	// judge finds out which data makes a difference; it is made when the first one is explained.
	judge *authz.Judge
}

// missingKey names a field that a side reads.
type missingKey struct {
	field string
	side  *side
}

// lackingField is what is known of such a field.
type lackingField struct {
	position string
	entries  int64
}

func newCounting(r *replay) *counts {
	patterns := evidence.NewPatterns()
	c := &counts{
		replay: r, patterns: patterns, expects: evidence.NewExpectations(r.Expects), sum: evidence.NewSum(evidence.Content{Etag: r.CandidateEtag}, patterns), skipped: make(map[string]int64),
		missing: make(map[missingKey]*lackingField), drift: make(map[DriftGroup]*DriftGroup),
		example: newExamples(),
	}
	return c
}

// add counts a batch. The error is that of its file, or of a record that is broken.
func (c *counts) add(ctx context.Context, b *batch) error {
	for i := range b.judged {
		c.judgement(ctx, &b.judged[i])
	}
	c.out.Others += b.other
	c.out.Broken += int64(len(b.broken))
	c.out.BrokenRecords = append(c.out.BrokenRecords, b.broken[:min(len(b.broken), maxBroken-len(c.out.BrokenRecords))]...)
	if c.Progress != nil {
		c.Progress(c.out.Entries)
	}
	if c.Strict && len(b.broken) > 0 {
		first := slices.MinFunc(b.broken, func(x, y Broken) int { return cmp.Compare(x.Record, y.Record) })
		return fmt.Errorf("%s: record %d: %s", first.File, first.Record, first.Reason)
	}
	return b.err
}

// judgement counts an entry.
func (c *counts) judgement(ctx context.Context, j *judgement) {
	c.out.Entries++
	if j.entry.Sampling != nil {
		c.out.Sampled++
	}
	if j.skipped != "" {
		c.skip(j)
		return
	}
	c.out.Compared++
	at := j.request.Time
	if c.out.First.IsZero() || at.Before(c.out.First) {
		c.out.First = at
	}
	if at.After(c.out.Last) {
		c.out.Last = at
	}
	if c.Compared != nil {
		c.Compared(j.request)
	}
	pattern := c.patterns.Of(evidence.Method(j.request.Method), j.request.Path)
	compared := evidence.Comparison{
		Request: j.request, Pattern: pattern, Outcome: j.outcome, Expectation: c.expects.Covering(j.request, j.outcome),
	}
	if of, known := c.leavesOf(j); known {
		compared.Reasons = evidence.Reasons{of.live[0], of.live[1], of.candidate[0], of.candidate[1]}
	}
	ask, explain := c.sum.Count(c.LiveEtag, compared)
	if explain {
		result, causes := c.explain(ctx, j)
		c.sum.Explain(c.LiveEtag, ask, result, causes)
	}
	if j.difference != authz.Unchanged && c.Examples {
		by := evidence.Explaining(j.difference, j.live, j.candidate)
		c.example.keep(groupKey{j.difference, pattern.Method(), pattern.Path(), by.Rule, by.Reason}, j)
	}
	c.drifted(pattern, j)
}

// skip counts an entry that was not compared. One that is about something else is none that
// was dropped.
func (c *counts) skip(j *judgement) {
	c.skipped[j.skipped]++
	for _, m := range j.lacks {
		c.lack(m)
	}
	switch j.skipped {
	case skipRule, skipPolicy, skipQuery, skipReservation:
		return
	}
	c.sum.Drop(c.LiveEtag, evidence.Drop{Reason: j.skipped, Time: j.entry.Time})
}

// maxMissing bounds the fields that are listed: a log names as many as it likes.
const maxMissing = 1000

// lack counts a field that an entry has not.
func (c *counts) lack(m missingField) {
	key := missingKey{m.field, m.side}
	known := c.missing[key]
	if known == nil {
		if len(c.missing) >= maxMissing {
			return
		}
		known = &lackingField{position: m.side.positionOf(m.path)}
		c.missing[key] = known
	}
	known.entries++
}

// explain finds the expressions that make a difference.
func (c *counts) explain(ctx context.Context, j *judgement) (result evidence.ExplainResult, causes []*evidencepb.Cause) {
	path := evidence.ExplainedPath(j.difference, j.live, j.candidate, len(c.Candidate.GetRules()))
	if path == "" {
		return evidence.Found, nil
	}
	traces := [2]explain.Trace{}
	for i, side := range []*side{c.live, c.candidate} {
		if side.compiled.NoOp() {
			continue
		}
		trace, err := side.compiled.Trace(ctx, nil, j.request, path)
		if err != nil {
			return evidence.Failed, nil
		}
		traces[i] = trace
	}
	data, err := c.dataOf(ctx, j)
	if err != nil {
		return evidence.Failed, nil
	}
	traces[1].Data = data
	for _, e := range explain.Compare(traces[0], traces[1]) {
		causes = append(causes, &evidencepb.Cause{File: e.File, Line: int32(e.Line), Text: e.Shown()}) // a line
	}
	return evidence.Found, causes
}

// dataOf returns the places of data without whose difference a request would be decided otherwise.
func (c *counts) dataOf(ctx context.Context, j *judgement) ([]string, error) {
	if c.items.list.None() || c.items.list == nil {
		return nil, nil
	}
	if c.judge == nil {
		made, err := authz.NewJudge(ctx, c.Live, c.Candidate, c.live.compiled, c.candidate.compiled)
		if err != nil {
			return nil, err
		}
		c.judge = made
	}
	return c.judge.Data(ctx, nil, j.request)
}

// drifted counts what an entry says of the replay.
func (c *counts) drifted(pattern *evidence.Pattern, j *judgement) {
	if !j.drift.known {
		return
	}
	c.out.Drift.Known++
	if j.drift.kind == authz.Unchanged {
		c.out.Drift.Same++
		return
	}
	group := DriftGroup{
		Kind: j.drift.kind, Method: pattern.Method(), Path: pattern.Path(), Revision: j.drift.revision,
		Other: c.LiveRevision != "" && j.drift.revision != "" && j.drift.revision != c.LiveRevision,
	}
	known := c.drift[group]
	if known == nil {
		if len(c.drift) >= maxGroups {
			c.out.Drift.Rest++
			return
		}
		first := group
		first.DecisionID = j.request.ID
		known = &first
		c.drift[group] = known
	}
	known.Entries++
}

// result returns what was counted.
func (c *counts) result() *Result {
	out := &c.out
	if m := c.items.message(); m != nil {
		c.sum.SetItems(c.LiveEtag, m)
		out.Items = c.items.list
	}
	out.Evidence, out.Examples, out.WithoutExample = c.sum.Evidence(), c.example.kept, c.example.left()
	for _, p := range out.Evidence.Pairs {
		if !out.First.IsZero() {
			// The time that the recording covers is the time of the comparison.
			p.Active = []*evidencepb.Span{{Begin: out.First.UnixMilli(), End: out.Last.UnixMilli()}}
		}
	}
	out.Skipped, out.Missing, out.Drift.Groups = c.skips(), c.missed(), c.driftGroups()
	for _, s := range []*side{c.live, c.candidate} {
		if f := s.compiled.Facts(); !f.Deterministic && f.Services == 0 {
			out.Unstable = append(out.Unstable, s.name)
		}
	}
	return out
}

func (c *counts) skips() (out []Skipped) {
	for reason, n := range c.skipped {
		out = append(out, Skipped{reason, n})
	}
	slices.SortFunc(out, func(a, b Skipped) int {
		return cmp.Or(cmp.Compare(b.Entries, a.Entries), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

func (c *counts) missed() (out []MissingField) {
	for key, n := range c.missing {
		out = append(out, MissingField{Field: key.field, Side: key.side.name, Position: n.position, Entries: n.entries})
	}
	slices.SortFunc(out, func(a, b MissingField) int {
		return cmp.Or(cmp.Compare(b.Entries, a.Entries), cmp.Compare(a.Field, b.Field), cmp.Compare(b.Side, a.Side))
	})
	return out
}

func (c *counts) driftGroups() (out []DriftGroup) {
	for _, g := range c.drift {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b DriftGroup) int {
		return cmp.Or(cmp.Compare(b.Entries, a.Entries), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Method, b.Method), cmp.Compare(a.Revision, b.Revision))
	})
	return out
}

package evidence

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
)

const (
	// maxGroups is how many groups of differences are kept of a pair.
	maxGroups = 200
	// maxReasons is how many reasons of otherwise equal groups are kept apart: a policy may write
	// one for each caller. The others are one group, with manyReasons in their place.
	maxReasons  = 8
	manyReasons = "(one of many reasons)"
	// maxExamples is how many a group has.
	maxExamples = 3
)

// groupID is what the requests of a group have in common.
type groupID struct {
	endpoint
	outcomeKey
	// expectation is the number of the one that covers them; 0 if none does.
	expectation int32
	// cause is a hash of the expressions that made the difference; unknownCause if they are not known.
	cause string
}

// endpoint is a method and a path pattern.
type endpoint struct{ method, pattern string }

// outcomeKey is an outcome without its labels.
type outcomeKey struct {
	kind                           kind
	policyStatus, experimentStatus int32
	rule, reason, changes          string
}

// key returns what the groups of the outcome have in common. All failures of the live policy
// are one group: the experiment has nothing to do with them.
func (o *Outcome) key() outcomeKey {
	if o.kind == adminpb.Report_LIVE_FAILED {
		return outcomeKey{kind: o.kind}
	}
	return outcomeKey{o.kind, o.policyStatus, o.experimentStatus, o.rule, o.reason, o.changes}
}

// group returns the ID of the group that a comparison is one of, but for its cause.
func (c Comparison) group() groupID {
	p := c.groupPattern()
	return groupID{endpoint{p.Method(), p.Path()}, c.Outcome.key(), c.Expectation, unknownCause}
}

func idOf(g *evidencepb.Group) groupID {
	return groupID{
		endpoint{g.GetMethod(), g.GetPattern()},
		outcomeKey{
			kind: kind(g.GetKind()), policyStatus: g.GetPolicyStatus(), experimentStatus: g.GetExperimentStatus(),
			rule: g.GetRule(), reason: g.GetReason(), changes: strings.Join(g.GetChanges(), "\n"),
		},
		g.GetExpectation(), CauseOf(g),
	}
}

// CauseOf returns a hash of the expressions that made a group of differences; empty if they are not known.
func CauseOf(g *evidencepb.Group) string {
	if stored := g.GetCause(); len(stored) > 0 {
		return string(stored[:min(causeSize, len(stored))])
	}
	if len(g.GetCauses()) == 0 {
		return unknownCause
	}
	return hashOf(g.GetCauses())
}

func (a endpoint) compare(b endpoint) int {
	return cmp.Or(cmp.Compare(a.pattern, b.pattern), cmp.Compare(a.method, b.method))
}

func (a groupID) compare(b groupID) int {
	return cmp.Or(
		cmp.Compare(a.kind, b.kind), a.endpoint.compare(b.endpoint),
		cmp.Compare(a.rule, b.rule), cmp.Compare(a.reason, b.reason), cmp.Compare(a.policyStatus, b.policyStatus),
		cmp.Compare(a.experimentStatus, b.experimentStatus), cmp.Compare(a.changes, b.changes),
		cmp.Compare(a.expectation, b.expectation), cmp.Compare(a.cause, b.cause),
	)
}

// group is what the requests of a difference come to. Examples and causes are never modified, and may
// be shared.
type group struct {
	count       int64
	first, last int64
	callers     callers
	// anonymous is how many of the requests have no caller that is known.
	anonymous int64
	examples  []*evidencepb.Example
	causes    []*evidencepb.Cause
}

// request counts a request of a caller.
func (g *group) request(c Comparison, by caller, at int64) {
	g.count++
	g.first, g.last = earlier(g.first, at), max(g.last, at)
	if by.known {
		g.callers.add(by.hash)
	} else {
		g.anonymous++
	}
	g.exemplify(c.Request, c.Outcome, at)
}

// exemplify makes a request an example, if none is of the same caller and path and there is room.
// A caller without an example has room where another one has two.
func (g *group) exemplify(r *authz.Request, o *Outcome, at int64) {
	labels := o.labels[:min(len(o.labels), maxLabelNames)]
	spare := -1
	if len(g.examples) >= maxExamples {
		if spare = g.spareExample(); spare < 0 || g.hasExampleOf(clip(r.Principal, maxCaller), labels) {
			return
		}
	}
	path, _, _ := strings.Cut(r.Path, "?")
	method, path, principal := clip(r.Method, maxMethod), clip(path, maxPath), clip(r.Principal, maxCaller)
	for _, known := range g.examples {
		if known.Method == method && known.Path == path && known.Principal == principal && sameLabels(known.Labels, labels) {
			return
		}
	}
	if spare >= 0 {
		g.examples = slices.Concat(g.examples[:spare], g.examples[spare+1:]) // those in use elsewhere stay as they are
	}
	// The texts of a request are parts of all its bytes, which are not to be kept for them.
	e := &evidencepb.Example{
		Method: strings.Clone(method), Path: strings.Clone(path), Principal: strings.Clone(principal),
		PolicyStatus: o.policyStatus, ExperimentStatus: o.experimentStatus,
		DecisionId: strings.Clone(clip(r.ID, maxID)), DecideTime: timeMessage(at),
	}
	if len(labels) > 0 {
		e.Labels = make(map[string]string, len(labels))
	}
	for _, l := range labels {
		e.Labels[l.Name] = l.Value
	}
	g.examples = append(g.examples, e)
}

// spareExample returns the last example whose caller has an earlier one; -1 if each is of another
// caller.
func (g *group) spareExample() int {
	for i := len(g.examples) - 1; i > 0; i-- {
		if hasCaller(g.examples[:i], g.examples[i]) {
			return i
		}
	}
	return -1
}

// hasExampleOf reports whether a caller, by its principal, else its labels, has an example.
func (g *group) hasExampleOf(principal string, labels []authz.Label) bool {
	return slices.ContainsFunc(g.examples, func(known *evidencepb.Example) bool {
		return known.Principal == principal && (principal != "" || sameLabels(known.Labels, labels))
	})
}

// hasCaller reports whether one of the examples has the caller of another one.
func hasCaller(examples []*evidencepb.Example, of *evidencepb.Example) bool {
	return slices.ContainsFunc(examples, func(e *evidencepb.Example) bool {
		return e.GetPrincipal() == of.GetPrincipal() && (of.GetPrincipal() != "" || maps.Equal(e.GetLabels(), of.GetLabels()))
	})
}

// sameLabels reports whether an example has these labels, each of another name.
func sameLabels(known map[string]string, labels []authz.Label) bool {
	if len(known) != len(labels) {
		return false
	}
	for _, l := range labels {
		if value, ok := known[l.Name]; !ok || value != l.Value {
			return false
		}
	}
	return true
}

// alikeExamples reports whether two examples have the same caller and path.
func alikeExamples(a, b *evidencepb.Example) bool {
	return a.GetPath() == b.GetPath() && a.GetPrincipal() == b.GetPrincipal() && a.GetMethod() == b.GetMethod() &&
		maps.Equal(a.GetLabels(), b.GetLabels())
}

// groupOf returns a group as evidence has it.
func groupOf(m *evidencepb.Group) *group {
	g := &group{
		count: m.GetCount(), anonymous: m.GetUnknownCallers(), first: milliseconds(m.GetFirstTime()), last: milliseconds(m.GetLastTime()),
		examples: slices.Clone(m.GetExamples()), causes: slices.Clone(m.GetCauses()),
	}
	g.callers.addStored(m.GetCallers())
	return g
}

// add adds another group of the same ID.
func (g *group) add(from *group) {
	g.count += from.count
	g.anonymous += from.anonymous
	g.first, g.last = earlier(g.first, from.first), max(g.last, from.last)
	g.callers.addAll(from.callers)
	g.addExamples(from.examples)
	if len(g.causes) == 0 {
		g.causes = from.causes // those of one cause are the same, unless there was no room for them
	}
}

// addExamples keeps the first one of each caller, and where there is still room the first others: the
// same ones in whatever order groups are added.
func (g *group) addExamples(from []*evidencepb.Example) {
	if n := len(g.examples); n >= maxExamples && g.spareExample() < 0 && !slices.ContainsFunc(from, func(e *evidencepb.Example) bool {
		return compareExamples(e, g.examples[n-1]) < 0
	}) {
		return
	}
	all := slices.Concat(g.examples, from)
	slices.SortFunc(all, compareExamples)
	var firsts, others []*evidencepb.Example
	for _, e := range all {
		alike := func(known *evidencepb.Example) bool { return alikeExamples(known, e) }
		switch {
		case !hasCaller(firsts, e):
			firsts = append(firsts, e)
		case !slices.ContainsFunc(firsts, alike) && !slices.ContainsFunc(others, alike):
			others = append(others, e)
		}
	}
	g.examples = append(firsts, others...)
	g.examples = g.examples[:min(maxExamples, len(g.examples))]
	slices.SortFunc(g.examples, compareExamples)
}

// compareExamples orders examples by time. Those of one time have an order, too.
func compareExamples(a, b *evidencepb.Example) int {
	return cmp.Or(
		compareTimes(a.GetDecideTime(), b.GetDecideTime()), cmp.Compare(a.GetDecisionId(), b.GetDecisionId()),
		cmp.Compare(a.GetPrincipal(), b.GetPrincipal()), cmp.Compare(a.GetPath(), b.GetPath()), cmp.Compare(a.GetMethod(), b.GetMethod()),
	)
}

// message returns the group as evidence has it.
func (g *group) message(id groupID) *evidencepb.Group {
	m := &evidencepb.Group{
		Kind: int32(id.kind), Method: id.method, Pattern: id.pattern, Rule: id.rule, Reason: id.reason,
		PolicyStatus: id.policyStatus, ExperimentStatus: id.experimentStatus,
		Count: g.count, Callers: g.callers.stored(), FirstTime: timeMessage(g.first), LastTime: timeMessage(g.last),
		Examples: slices.Clone(g.examples), Causes: slices.Clone(g.causes),
	}
	if id.expectation != 0 {
		m.Expectation, m.UnknownCallers = id.expectation, g.anonymous
	}
	if id.cause != unknownCause {
		m.Cause = []byte(id.cause)
	}
	if id.changes != "" {
		m.Changes = strings.Split(id.changes, "\n")
	}
	return m
}

// timeMessage returns a time of Unix milliseconds; nil for 0.
func timeMessage(ms int64) *timestamppb.Timestamp {
	if ms == 0 {
		return nil
	}
	return &timestamppb.Timestamp{Seconds: ms / 1000, Nanos: int32(ms%1000) * 1e6}
}

// milliseconds returns a time in Unix milliseconds; 0 for nil.
func milliseconds(t *timestamppb.Timestamp) int64 {
	if t == nil {
		return 0
	}
	return t.AsTime().UnixMilli()
}

// earlier returns the earlier of two times, of which 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func compareTimes(a, b *timestamppb.Timestamp) int {
	return cmp.Or(cmp.Compare(a.GetSeconds(), b.GetSeconds()), cmp.Compare(a.GetNanos(), b.GetNanos()))
}

func laterTime(a, b *timestamppb.Timestamp) *timestamppb.Timestamp {
	if a == nil || b != nil && compareTimes(b, a) > 0 {
		return b
	}
	return a
}

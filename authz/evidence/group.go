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
	// maxGroups is how many groups of differences are counted of a pair.
	maxGroups = 200
	// maxReasons is how many reasons of otherwise equal groups are told apart: a policy may write
	// one for each caller. The others are one group, with manyReasons in their place.
	maxReasons  = 8
	manyReasons = "(one of many reasons)"
	// maxExamples and maxCauses are how many a group has.
	maxExamples = 3
	maxCauses   = 3
)

// groupKey is what the requests of a group have in common.
type groupKey struct {
	pattern *Pattern
	outcomeKey
}

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

// group counts requests that are decided differently. What is no sum stays when the counts
// were taken: to take it twice changes nothing.
type group struct {
	// count is what was not taken yet, total all.
	count, total int64
	first, last  int64
	callers      callers
	examples     []*evidencepb.Example
	causes       []*evidencepb.Cause
	// explained says that the causes are newer than what was taken.
	explained bool
}

// add counts a request. It reports whether somebody should find out the causes: they are not
// known, and the request is an example, or so many were counted since the last time as before
// it: whoever was asked may have been too busy.
func (g *group) add(r *authz.Request, o *Outcome, at int64) (explain bool) {
	g.count++
	g.total++
	g.first, g.last = earlier(g.first, at), max(g.last, at)
	if hash, ok := callerOf(r.Principal, o.labels); ok {
		g.callers.add(hash)
	}
	example := g.exemplify(r, o, at)
	return len(g.causes) == 0 && (example || g.total&(g.total-1) == 0)
}

// exemplify makes a request an example, if there is room and none is of the same caller and
// path.
func (g *group) exemplify(r *authz.Request, o *Outcome, at int64) bool {
	if len(g.examples) == maxExamples {
		return false
	}
	path, _, _ := strings.Cut(r.Path, "?")
	method, path, principal := clip(r.Method, maxMethod), clip(path, maxPath), clip(r.Principal, maxCaller)
	labels := o.labels[:min(len(o.labels), maxLabelNames)]
	for _, known := range g.examples {
		if known.Method == method && known.Path == path && known.Principal == principal && sameLabels(known.Labels, labels) {
			return false
		}
	}
	// The texts of a request are parts of all its bytes, which are not to be kept for them.
	e := &evidencepb.Example{
		Method: strings.Clone(method), Path: strings.Clone(path), Principal: strings.Clone(principal),
		PolicyStatus: o.policyStatus, ExperimentStatus: o.experimentStatus,
		DecisionId: strings.Clone(clip(r.ID, maxID)), DecideTime: timeMessage(at),
	}
	for _, l := range labels {
		if e.Labels == nil {
			e.Labels = make(map[string]string, len(labels))
		}
		e.Labels[l.Name] = l.Value
	}
	g.examples = append(g.examples, e)
	return true
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

// message returns the group as evidence has it.
func (g *group) message(key groupKey) *evidencepb.Group {
	m := &evidencepb.Group{
		Kind: int32(key.kind), Method: key.pattern.method, Pattern: key.pattern.path, Rule: key.rule, Reason: key.reason,
		PolicyStatus: key.policyStatus, ExperimentStatus: key.experimentStatus,
		Count: g.count, Callers: g.callers.stored(), FirstTime: timeMessage(g.first), LastTime: timeMessage(g.last),
		Examples: g.examples, Causes: g.causes,
	}
	if key.changes != "" {
		m.Changes = strings.Split(key.changes, "\n")
	}
	return m
}

// groupID is what tells a group of evidence from others.
type groupID struct {
	endpoint
	kind                           int32
	policyStatus, experimentStatus int32
	rule, reason, changes          string
}

// endpoint is a method and a path pattern.
type endpoint struct{ method, pattern string }

func idOf(g *evidencepb.Group) groupID {
	return groupID{
		endpoint: endpoint{g.GetMethod(), g.GetPattern()}, kind: g.GetKind(),
		policyStatus: g.GetPolicyStatus(), experimentStatus: g.GetExperimentStatus(),
		rule: g.GetRule(), reason: g.GetReason(), changes: strings.Join(g.GetChanges(), "\n"),
	}
}

func (a groupID) compare(b groupID) int {
	return cmp.Or(
		cmp.Compare(a.kind, b.kind), cmp.Compare(a.pattern, b.pattern), cmp.Compare(a.method, b.method),
		cmp.Compare(a.rule, b.rule), cmp.Compare(a.reason, b.reason), cmp.Compare(a.policyStatus, b.policyStatus),
		cmp.Compare(a.experimentStatus, b.experimentStatus), cmp.Compare(a.changes, b.changes),
	)
}

// groupSum adds up groups of one ID. Its callers are not in the message: they are added to often.
type groupSum struct {
	*evidencepb.Group
	callers callers
}

// newGroupSum returns a sum with one group.
func newGroupSum(g *evidencepb.Group) *groupSum {
	sum := &groupSum{Group: copyGroup(g)}
	sum.callers.addStored(g.GetCallers())
	return sum
}

// message returns the sum, which may be added to later.
func (g *groupSum) message() *evidencepb.Group {
	m := copyGroup(g.Group)
	m.Callers = g.callers.stored()
	return m
}

// copyGroup returns a group without its callers whose parts may be replaced. The parts
// themselves are shared and never modified.
func copyGroup(g *evidencepb.Group) *evidencepb.Group {
	return &evidencepb.Group{
		Kind: g.GetKind(), Method: g.GetMethod(), Pattern: g.GetPattern(), Rule: g.GetRule(), Reason: g.GetReason(),
		PolicyStatus: g.GetPolicyStatus(), ExperimentStatus: g.GetExperimentStatus(), Changes: g.GetChanges(),
		Count: g.GetCount(), FirstTime: g.GetFirstTime(), LastTime: g.GetLastTime(),
		Examples: slices.Clone(g.GetExamples()), Causes: slices.Clone(g.GetCauses()),
	}
}

// add adds a group of the same ID.
func (g *groupSum) add(from *evidencepb.Group) {
	g.addButCallers(from)
	g.callers.addStored(from.GetCallers())
}

// addSum adds another sum of the same ID.
func (g *groupSum) addSum(from *groupSum) {
	g.addButCallers(from.Group)
	g.callers.addAll(from.callers)
}

func (g *groupSum) addButCallers(from *evidencepb.Group) {
	g.Count += from.GetCount()
	g.FirstTime, g.LastTime = earlierTime(g.FirstTime, from.GetFirstTime()), laterTime(g.LastTime, from.GetLastTime())
	if n := len(g.Examples); n < maxExamples || slices.ContainsFunc(from.GetExamples(), func(e *evidencepb.Example) bool {
		return compareTimes(e.GetDecideTime(), g.Examples[n-1].GetDecideTime()) <= 0
	}) {
		g.Examples = firstExamples(append(slices.Clone(g.Examples), from.GetExamples()...))
	}
	for _, c := range from.GetCauses() {
		if len(g.Causes) < maxCauses && !slices.ContainsFunc(g.Causes, func(known *evidencepb.Cause) bool {
			return known.GetFile() == c.GetFile() && known.GetLine() == c.GetLine() && known.GetText() == c.GetText()
		}) {
			g.Causes = append(g.Causes[:len(g.Causes):len(g.Causes)], c)
		}
	}
}

// firstExamples keeps the first ones of different callers or paths.
func firstExamples(of []*evidencepb.Example) []*evidencepb.Example {
	slices.SortStableFunc(of, func(a, b *evidencepb.Example) int {
		return cmp.Or(compareTimes(a.GetDecideTime(), b.GetDecideTime()), cmp.Compare(a.GetDecisionId(), b.GetDecisionId()))
	})
	out := of[:0]
	for _, e := range of {
		if len(out) < maxExamples && !slices.ContainsFunc(out, func(known *evidencepb.Example) bool { return alikeExamples(known, e) }) {
			out = append(out, e)
		}
	}
	return out
}

// timeMessage returns a time of Unix milliseconds; nil for 0.
func timeMessage(ms int64) *timestamppb.Timestamp {
	if ms == 0 {
		return nil
	}
	return &timestamppb.Timestamp{Seconds: ms / 1000, Nanos: int32(ms%1000) * 1e6}
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

func earlierTime(a, b *timestamppb.Timestamp) *timestamppb.Timestamp {
	if a == nil || b != nil && compareTimes(b, a) < 0 {
		return b
	}
	return a
}

func laterTime(a, b *timestamppb.Timestamp) *timestamppb.Timestamp {
	if a == nil || b != nil && compareTimes(b, a) > 0 {
		return b
	}
	return a
}

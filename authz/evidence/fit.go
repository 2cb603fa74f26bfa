package evidence

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"understudy/authz/diagnostics"
	evidencepb "understudy/authz/evidence/v1"
)

// fit makes evidence at most so large as a message. What goes first is what is missed least:
// examples, lists of callers, groups that rank last, endpoints with few requests, earlier pairs before
// the present one. All counts stay exact: what goes is counted as other.
func fit(e *evidencepb.Evidence, size int) {
	for _, step := range reductions {
		if proto.Size(e) <= size {
			return
		}
		for i, p := range allPairs(e) {
			step(e, p, i > 0)
		}
	}
}

// allPairs returns the present pair first, and what was replayed last.
func allPairs(e *evidencepb.Evidence) []*evidencepb.Pair {
	out := slices.Clone(e.GetPairs())
	if e.GetEarlier() != nil {
		out = append(out, e.GetEarlier())
	}
	return append(out, e.GetReplayed()...)
}

// reduction leaves out some detail of a pair of evidence; old says that it is not the present
// one.
type reduction func(e *evidencepb.Evidence, p *evidencepb.Pair, old bool)

// reductions are in the order in which they are made.
var reductions = []reduction{
	ofOld(examples(0, 0)),
	examples(maxGroups, 1),
	ofOld(sketchCallers(0)), sketchCallers(20),
	ofOld(groups(20)), ofOld(endpoints(20)), ofOld(labelValues(3)),
	examples(20, 1), labelValues(10),
	causes(60), groups(150), examples(10, 1), endpoints(400), groups(100), endpoints(200),
	ofOld(groups(5)), ofOld(endpoints(5)), ofOld(labelValues(0)),
	labelValues(5), sketchCallers(0), groups(80), groups(64), endpoints(100),
	examples(5, 1), labelValues(3), fewRules(120), groups(40), fewRules(60), points(15),
	ofOld(groups(0)), ofOld(endpoints(0)), groups(20), endpoints(30), labelValues(0), examples(0, 0),
	groups(10), endpoints(10), fewRules(20), points(0), noChangedData,
	ofOld(fewRules(4)), groups(5), endpoints(5), fewRules(10),
	groups(0), endpoints(0), fewRules(4), // none at all would look like no change
}

// ofOld does it to the pairs that are not the present one.
func ofOld(r reduction) reduction {
	return func(e *evidencepb.Evidence, p *evidencepb.Pair, old bool) {
		if old {
			r(e, p, old)
		}
	}
}

// examples keeps so many examples of so many groups, those that rank first.
func examples(of, n int) reduction {
	return func(_ *evidencepb.Evidence, p *evidencepb.Pair, _ bool) {
		for i, g := range p.GetGroups() {
			if i >= of {
				g.Examples = nil
			}
			g.Examples = g.Examples[:min(n, len(g.Examples))]
		}
	}
}

// causes keeps those of so many groups, which rank first.
func causes(of int) reduction {
	return func(_ *evidencepb.Evidence, p *evidencepb.Pair, _ bool) {
		for _, g := range p.GetGroups()[min(of, len(p.GetGroups())):] {
			g.Causes = nil
		}
	}
}

// sketchCallers makes sketches of the lists of callers that are longer, but for so many groups.
func sketchCallers(from int) reduction {
	return func(_ *evidencepb.Evidence, p *evidencepb.Pair, _ bool) {
		for i, g := range p.GetGroups() {
			if i >= from {
				g.Callers = shortCallers(g.GetCallers())
			}
		}
	}
}

// groups keeps the groups that rank first.
func groups(n int) reduction {
	return func(_ *evidencepb.Evidence, p *evidencepb.Pair, _ bool) {
		if len(p.Groups) <= n {
			return
		}
		other := make(map[int32]int64)
		maps.Copy(other, p.Other)
		for _, g := range p.Groups[n:] {
			other[g.GetKind()] += g.GetCount()
		}
		p.Groups, p.Other = p.Groups[:n:n], other
	}
}

// endpoints keeps those of groups first, then those of most requests.
func endpoints(n int) reduction {
	return func(_ *evidencepb.Evidence, p *evidencepb.Pair, _ bool) {
		if len(p.Endpoints) <= n {
			return
		}
		grouped := make(map[endpoint]int)
		for _, g := range p.Groups {
			grouped[endpoint{g.GetMethod(), g.GetPattern()}] = 1
		}
		id := func(e *evidencepb.Endpoint) endpoint { return endpoint{e.GetMethod(), e.GetPattern()} }
		sorted := slices.SortedFunc(slices.Values(p.Endpoints), func(a, b *evidencepb.Endpoint) int {
			return cmp.Or(cmp.Compare(grouped[id(b)], grouped[id(a)]), cmp.Compare(b.GetCount(), a.GetCount()), id(a).compare(id(b)))
		})
		for _, e := range sorted[n:] {
			p.OtherEndpoints += e.GetCount()
		}
		p.Endpoints = sorted[:n:n]
	}
}

// labelValues keeps the most frequent values of each label; with 0 there are no labels.
func labelValues(n int) reduction {
	return func(_ *evidencepb.Evidence, p *evidencepb.Pair, _ bool) {
		if n == 0 {
			p.Labels = nil
		}
		for _, l := range p.Labels {
			l.Values = l.Values[:min(n, len(l.Values))] // in order of how many there may be
		}
	}
}

// fewRules keeps so many rules, first those that were never evaluated: they are what somebody
// has to know of.
func fewRules(n int) reduction {
	return func(_ *evidencepb.Evidence, p *evidencepb.Pair, _ bool) {
		if len(p.Rules) <= n {
			return
		}
		sorted := slices.Clone(p.Rules)
		slices.SortStableFunc(sorted, func(a, b *evidencepb.Rule) int { return cmp.Compare(evaluations(a), evaluations(b)) })
		p.MoreRules += int64(len(sorted) - n)
		p.Rules = sorted[:n:n]
	}
}

func evaluations(r *evidencepb.Rule) (n int) {
	for _, evaluated := range []bool{r.GetEvaluatedTrue(), r.GetEvaluatedFalse()} {
		if evaluated {
			n++
		}
	}
	return n
}

// points keeps the last minutes.
func points(n int) reduction {
	return func(e *evidencepb.Evidence, _ *evidencepb.Pair, _ bool) {
		e.Points = e.Points[max(0, len(e.Points)-n):]
	}
}

func noChangedData(_ *evidencepb.Evidence, p *evidencepb.Pair, _ bool) { p.ChangedData = nil }

// The bounds of texts, in bytes.
const (
	maxRule    = 96
	maxReason  = 192
	maxPath    = 192
	maxCaller  = 192
	maxID      = 64
	maxFile    = 96
	maxCause   = 120
	maxDataRef = 96
)

// clip makes a text fit for a record: valid, on one line, and of at most n bytes and a mark
// that it was cut.
func clip(text string, n int) string {
	text = diagnostics.Bounded(text)
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n-len("…")], "") + "…"
}

package evidence

import (
	"cmp"
	"maps"
	"slices"

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

// allPairs returns the present pair first.
func allPairs(e *evidencepb.Evidence) []*evidencepb.Pair {
	out := slices.Clone(e.GetPairs())
	if e.GetEarlier() != nil {
		out = append(out, e.GetEarlier())
	}
	return out
}

// reduction leaves out some detail of a pair of evidence; old says that it is not the present
// one.
type reduction func(e *evidencepb.Evidence, p *evidencepb.Pair, old bool)

// reductions are in the order in which they are made.
var reductions = []reduction{
	ofOld(examples(0, 0)),
	examples(maxGroups, 1),
	ofOld(sketchCallers(0)), sketchCallers(20), sketchCallers(5),
	ofOld(groups(20)), ofOld(endpoints(20)), ofOld(labelValues(3)),
	examples(20, 1), labelValues(10),
	causes(60), groups(150), examples(10, 1), endpoints(400), groups(100), endpoints(200),
	ofOld(groups(5)), ofOld(endpoints(5)), ofOld(labelValues(0)), ofOld(noBounds),
	labelValues(5), sketchCallers(0), groups(80), groups(64), endpoints(100),
	examples(5, 1), labelValues(3), groups(40), points(15),
	ofOld(groups(0)), ofOld(endpoints(0)), groups(20), endpoints(30), labelValues(0), examples(0, 0),
	ofOld(noItems), groups(10), endpoints(10), points(0), groups(5), endpoints(5),
	groups(0), endpoints(0), noItems,
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

// noItems forgets what was shown of items: as if no request had shown any.
func noItems(_ *evidencepb.Evidence, p *evidencepb.Pair, _ bool) { p.Items = nil }

// noBounds leaves out the callers that only bounds are made of: there is none of callers then.
func noBounds(_ *evidencepb.Evidence, p *evidencepb.Pair, _ bool) {
	p.DeniedCallers, p.NewlyDeniedCallers = nil, nil
}

// points keeps the last minutes.
func points(n int) reduction {
	return func(e *evidencepb.Evidence, _ *evidencepb.Pair, _ bool) {
		e.Points = e.Points[max(0, len(e.Points)-n):]
	}
}

// The bounds of texts, in bytes.
const (
	maxRule   = 96
	maxReason = 192
	maxPath   = 192
	maxCaller = 192
	maxID     = 64
	maxFile   = 96
	maxCause  = 120
)

// clip makes a text fit for a record: valid, on one line, and of at most n bytes and a mark
// that it was cut.
func clip(text string, n int) string {
	text = diagnostics.Bounded(text)
	if len(text) <= n {
		return text
	}
	return diagnostics.Cut(text, n-len("…"))
}

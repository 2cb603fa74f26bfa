package evidence

import (
	"cmp"
	"maps"
	"slices"

	evidencepb "understudy/authz/evidence/v1"
)

// endpointCounts are the requests of a pair by method and path pattern.
type endpointCounts struct {
	endpoints map[endpoint]*passes
	// found are the endpoints of patterns, until the pair is bounded: a pointer is found faster.
	found          map[*Pattern]*passes
	otherEndpoints int64
	// folded is when requests of a name were last added to those of `*`, in Unix milliseconds.
	folded int64
}

// passes are the requests of an endpoint, and those of them that one of the policies allows; since is
// since when it has its name, if it has it late.
type passes struct{ count, allowed, since int64 }

func (n *passes) add(more passes) {
	n.count += more.count
	n.allowed += more.allowed
	n.since = max(n.since, more.since)
}

// endpoint returns what is counted of a pattern.
func (p *pair) endpoint(of *Pattern) *passes {
	if e := p.found[of]; e != nil {
		return e
	}
	id := endpoint{of.Method(), of.Path()}
	e := p.endpoints[id]
	if e == nil {
		if len(p.endpoints) >= slack*maxEndpoints {
			p.bound(nil)
		}
		e = &passes{}
		p.endpoints[id] = e
	}
	p.found[of] = e
	return e
}

// addEndpoints adds endpoints. Of one that only one side has, the other may have taken the name.
func (p *pair) addEndpoints(m *evidencepb.Pair) {
	before := p.folded
	if m.GetFolded() > 0 {
		p.namedElsewhere(m)
	}
	for _, e := range m.GetEndpoints() {
		id, n := endpoint{e.GetMethod(), e.GetPattern()}, passes{e.GetCount(), e.GetAllowed(), e.GetSince()}
		if p.endpoints[id] == nil {
			n.since = max(n.since, before)
		}
		p.addEndpoint(id, n)
	}
}

// namedElsewhere notes that another pair may have counted requests as `*` of which it has no
// endpoint.
func (p *pair) namedElsewhere(m *evidencepb.Pair) {
	p.folded = max(p.folded, m.GetFolded())
	there := make(map[endpoint]bool, len(m.GetEndpoints()))
	for _, e := range m.GetEndpoints() {
		there[endpoint{e.GetMethod(), e.GetPattern()}] = true
	}
	for id, e := range p.endpoints {
		if !there[id] {
			e.since = max(e.since, m.GetFolded())
		}
	}
}

func (p *pair) addEndpoint(id endpoint, n passes) {
	if e := p.endpoints[id]; e != nil {
		e.add(n)
	} else {
		p.endpoints[id] = &n
	}
}

// boundEndpoints keeps the endpoints of groups, and of the others those that have most
// requests.
func (p *pair) boundEndpoints() {
	if len(p.endpoints) <= maxEndpoints {
		return
	}
	grouped := make(map[endpoint]int)
	for id := range p.groups {
		grouped[id.endpoint] = 1
	}
	ids := slices.SortedFunc(maps.Keys(p.endpoints), func(a, b endpoint) int {
		return cmp.Or(cmp.Compare(grouped[b], grouped[a]), cmp.Compare(p.endpoints[b].count, p.endpoints[a].count), a.compare(b))
	})
	for _, id := range ids[maxEndpoints:] {
		p.otherEndpoints += p.endpoints[id].count
		delete(p.endpoints, id)
	}
}

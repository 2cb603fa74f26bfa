package evidence

import (
	"cmp"
	"maps"
	"slices"

	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
)

const (
	// maxEndpoints and maxDrops are bounds of a pair.
	maxEndpoints = 1024
	maxDrops     = 32
	// slack is how many times as many groups and endpoints there may be between two times at which
	// a pair is bounded.
	slack = 2
)

// pair is what was compared with one live policy: comparisons that are counted one by one, and
// evidence that is added. Of groups and endpoints it has twice as many as it should, at most, until
// it is bounded.
type pair struct {
	requests    weighted
	drops       map[string]int64
	active      []span
	first, last int64
	endpointCounts
	groups      map[groupID]*group
	other       map[kind]int64
	labels      map[labelID]*label
	populations populations
	// hours are those of the requests compared.
	hours week
	// items are what requests have shown of the items in which the policies differ.
	items []*evidencepb.Items
	noise *evidencepb.Noise
	progress
}

// endpointCounts are the requests of a pair by method and path pattern.
type endpointCounts struct {
	endpoints map[endpoint]*passes
	// found are the endpoints of patterns, until the pair is bounded: a pointer is found faster.
	found          map[*Pattern]*passes
	otherEndpoints int64
	// folded is when requests of a name were last added to those of `*`, in Unix milliseconds.
	folded int64
}

// progress is what was not examined or compared, or not yet.
type progress struct {
	// unexamined is of evidence that was added, and of earlier times; now is as of now.
	unexamined int64
	now        examinations
	// waiting are the requests that wait to be compared, as of now.
	waiting weighted
}

// passes are the requests of an endpoint, and those of them that one of the policies allows; since is
// since when it has its name, if it has it late.
type passes struct{ count, allowed, since int64 }

func (n *passes) add(more passes) {
	n.count += more.count
	n.allowed += more.allowed
	n.since = max(n.since, more.since)
}

// examinations is how many requests are still to be examined, and how many could not be.
type examinations struct{ pending, unexamined int64 }

func newPair() *pair {
	return &pair{
		drops: make(map[string]int64), groups: make(map[groupID]*group),
		endpointCounts: endpointCounts{endpoints: make(map[endpoint]*passes), found: make(map[*Pattern]*passes)},
		other:          make(map[kind]int64), labels: make(map[labelID]*label), populations: newPopulations(),
	}
}

// latest is when the pair was compared last, in Unix milliseconds.
func (p *pair) latest() int64 {
	latest := p.last
	for _, s := range p.active {
		latest = max(latest, s.end)
	}
	return latest
}

// compared counts a comparison with the experiment of a unique ID, and reports what [Sum.Count] does.
func (p *pair) compared(c Comparison, at int64, uid string) (explain bool) {
	o := c.Outcome
	p.requests.one(o.cell, c.Weight)
	p.first, p.last = earlier(p.first, at), max(p.last, at)
	c.Pattern.counted(at)
	e := p.endpoint(c.Pattern)
	e.since = max(e.since, c.Pattern.lateSince(p.first))
	if e.count == 0 && p.folded > 0 {
		e.since = at // it may have lost its name
	}
	if e.count++; o.cell.allowed() {
		e.allowed++
	}
	if o.cell != liveFailed {
		p.hours.add(at)
	}
	by := callerOf(uid, c.Request, o.caller)
	if by.known {
		p.populations.request(o.cell, by.hash)
	}
	if o.kind == unchanged {
		return false
	}
	for _, l := range o.labels {
		p.labelled(labelID{l.Name, int32(o.kind)}, l.Value)
	}
	return p.differing(c.group()).request(c, by, at)
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

// labelled counts the value of a label, unless there are too many names.
func (p *pair) labelled(id labelID, value string) {
	l := p.labels[id]
	if l == nil {
		if len(p.labels) >= maxLabelNames*(kinds-1) {
			return
		}
		l = newLabel()
		p.labels[id] = l
	}
	l.add(value)
}

// differing returns the group of an ID, made if there is none.
func (p *pair) differing(id groupID) *group {
	if g := p.known(id); g != nil {
		return g
	}
	if len(p.groups) >= slack*maxGroups {
		p.boundGroups(maxGroups)
	}
	if id.reason != "" && p.reasons(id) >= maxReasons {
		id.reason = manyReasons
	}
	g := &group{}
	p.groups[id] = g
	return g
}

// known returns the group of an ID, or that of many reasons; nil if there is neither.
func (p *pair) known(id groupID) *group {
	g := p.groups[id]
	if g == nil && id.reason != "" {
		id.reason = manyReasons
		g = p.groups[id]
	}
	return g
}

// reasons is how many groups differ from an ID in nothing but the reason.
func (p *pair) reasons(id groupID) (n int) {
	for other := range p.groups {
		if other.endpoint == id.endpoint {
			if other.reason = id.reason; other == id {
				n++
			}
		}
	}
	return n
}

// dropped counts a request that was not compared.
func (p *pair) dropped(reason string, weight int64) {
	p.requests.one(dropped, weight)
	p.dropFor(reason, 1)
}

// dropFor counts why requests were not compared.
func (p *pair) dropFor(reason string, n int64) {
	if _, known := p.drops[reason]; !known && len(p.drops) >= maxDrops {
		reason = "other"
	}
	p.drops[reason] += n
}

// decidedTwice counts a request that the live policy decided twice, with the difference between the two.
func (p *pair) decidedTwice(d authz.Difference) {
	m := &evidencepb.Noise{Sampled: 1}
	if k := kindOf(d); k != unchanged {
		m.Differed, m.Kinds = 1, map[int32]int64{int32(k): 1}
	}
	p.addNoise(m)
}

// waits sets how many requests wait to be compared, and how many they stand for.
func (p *pair) waits(n, weight int64) {
	p.waiting = weighted{counts{dropped: n}, counts{dropped: weight}, counts{dropped: weight}}
}

// endExaminations says that no request is examined any more.
func (p *pair) endExaminations() {
	p.unexamined += p.now.pending + p.now.unexamined
	p.now = examinations{}
}

// add adds what was compared.
func (p *pair) add(m *evidencepb.Pair) {
	p.requests.add(weightedOf(m))
	for reason, n := range m.GetDrops() {
		p.drops[reason] += n
	}
	p.active = union(append(p.active, spansOf(m.GetActive())...))
	p.first, p.last = earlier(p.first, milliseconds(m.GetFirstTime())), max(p.last, milliseconds(m.GetLastTime()))
	p.addEndpoints(m)
	p.otherEndpoints += m.GetOtherEndpoints()
	for _, g := range m.GetGroups() {
		p.addGroup(idOf(g), groupOf(g))
	}
	for k, n := range m.GetOther() {
		p.other[kind(k)] += n
	}
	for _, l := range m.GetLabels() {
		p.addLabel(labelID{l.GetLabel(), l.GetKind()}, labelOf(l))
	}
	p.populations.addStored(m)
	p.hours.addStored(m.GetHours())
	for _, list := range m.GetItems() {
		p.items = addItems(p.items, list)
	}
	p.now.pending += m.GetPending()
	p.unexamined += m.GetUnexamined()
	p.addNoise(m.GetNoise())
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

func (p *pair) addGroup(id groupID, g *group) {
	if known := p.groups[id]; known != nil {
		known.add(g)
	} else {
		p.groups[id] = g
	}
}

func (p *pair) addLabel(id labelID, l *label) {
	if known := p.labels[id]; known != nil {
		known.merge(l)
	} else {
		p.labels[id] = l
	}
}

func (p *pair) addNoise(m *evidencepb.Noise) {
	if m == nil {
		return
	}
	sum := &evidencepb.Noise{
		Sampled: p.noise.GetSampled() + m.GetSampled(), Differed: p.noise.GetDiffered() + m.GetDiffered(),
		Kinds: make(map[int32]int64),
	}
	for _, of := range []*evidencepb.Noise{p.noise, m} {
		for kind, n := range of.GetKinds() {
			sum.Kinds[kind] += n
		}
	}
	p.noise = sum
}

// bound folds the excess into the "other" counts.
func (p *pair) bound(crowds map[string]crowd) {
	clear(p.found)
	p.fold(crowds)
	p.boundGroups(maxGroups)
	p.boundEndpoints()
	boundLabels(p.labels)
	for _, reason := range slices.Sorted(maps.Keys(p.drops))[min(maxDrops, len(p.drops)):] {
		p.drops["other"] += p.drops[reason]
		delete(p.drops, reason)
	}
}

// patterns :: path pattern → what it weighs: its requests; those that differ count twice, for they
// are what a report is about.
func (p *pair) patterns() map[string]int64 {
	out := make(map[string]int64, len(p.endpoints))
	for e, n := range p.endpoints {
		out[e.pattern] += n.count
	}
	for id, g := range p.groups {
		out[id.pattern] += g.count
	}
	return out
}

// rankedPatterns returns the path patterns of the groups by rank.
func (p *pair) rankedPatterns() []string {
	out := make([]string, 0, len(p.groups))
	for _, id := range p.groupIDs() {
		out = append(out, id.pattern)
	}
	return out
}

// fold makes `*` of words of which there are too many, numerators with their denominators.
func (p *pair) fold(crowds map[string]crowd) {
	to := foldPatterns(p.patterns(), p.rankedPatterns, crowds)
	if len(to) == 0 {
		return
	}
	p.folded = max(p.folded, p.last)
	for e, n := range maps.Clone(p.endpoints) {
		if to, ok := to[e.pattern]; ok {
			delete(p.endpoints, e)
			p.addEndpoint(endpoint{e.method, to}, passes{n.count, n.allowed, 0})
		}
	}
	for id, g := range maps.Clone(p.groups) {
		if to, ok := to[id.pattern]; ok {
			delete(p.groups, id)
			id.pattern = to
			p.addGroup(id, g)
		}
	}
}

// boundGroups keeps the groups that a report needs most.
func (p *pair) boundGroups(n int) {
	if len(p.groups) <= n {
		return
	}
	for _, id := range p.groupIDs()[n:] {
		p.other[id.kind] += p.groups[id].count
		delete(p.groups, id)
	}
}

// groupIDs returns those of the groups by rank.
func (p *pair) groupIDs() []groupID {
	return rank(slices.Collect(maps.Keys(p.groups)), func(id groupID) ranked {
		g := p.groups[id]
		return ranked{id.kind, &g.callers, g.count}
	}, groupID.compare)
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

// message returns the pair, in an order that depends on nothing else.
func (p *pair) message(policyEtag string) *evidencepb.Pair {
	m := &evidencepb.Pair{
		PolicyEtag: policyEtag, Drops: maps.Clone(p.drops), Active: spanMessages(p.active),
		FirstTime: timeMessage(p.first), LastTime: timeMessage(p.last), Other: make(map[int32]int64), OtherEndpoints: p.otherEndpoints,
		Hours: p.hours.stored(), Items: p.items, Noise: p.noise,
		Pending: p.now.pending, Unexamined: p.unexamined + p.now.unexamined,
		Folded: p.folded,
	}
	requests := p.requests
	requests.add(p.waiting)
	requests.set(m)
	p.populations.set(m)
	if n := p.waiting.counts[dropped]; n > 0 {
		m.Drops[Waiting] = n
	}
	for k, n := range p.other {
		m.Other[int32(k)] = n
	}
	for _, e := range slices.SortedFunc(maps.Keys(p.endpoints), endpoint.compare) {
		n := p.endpoints[e]
		m.Endpoints = append(m.Endpoints, &evidencepb.Endpoint{Method: e.method, Pattern: e.pattern, Count: n.count, Allowed: n.allowed, Since: n.since})
	}
	for _, id := range p.groupIDs() {
		m.Groups = append(m.Groups, p.groups[id].message(id))
	}
	for _, id := range slices.SortedFunc(maps.Keys(p.labels), func(a, b labelID) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	}) {
		m.Labels = append(m.Labels, p.labels[id].message(id))
	}
	return m
}

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
	pairGroups
	labels      map[labelID]*label
	populations populations
	// kept are path patterns that are not folded.
	kept map[string]bool
	// hours are those of the requests compared.
	hours week
	// items are what requests have shown of the items in which the policies differ.
	items []*evidencepb.Items
	noise *evidencepb.Noise
	progress
}

// pairGroups are the requests of a pair that are decided differently.
type pairGroups struct {
	groups map[groupID]*group
	// other :: kind → how many requests there are in groups that are not kept.
	other map[kind]int64
	// explanations :: ID of a group without its cause → what is known of the causes of such groups, of the requests
	// that were counted one by one. explained is for how many reasons causes are known, and pending for how many they
	// are looked for.
	explanations       map[groupID]*explanations
	explained, pending int
}

// progress is what was not examined or compared, or not yet.
type progress struct {
	// unexamined is of evidence that was added, and of earlier times; now is as of now.
	unexamined int64
	now        examinations
	// waiting are the requests that wait to be compared, as of now.
	waiting weighted
}

// examinations is how many requests are still to be examined, and how many could not be.
type examinations struct{ pending, unexamined int64 }

func newPair(kept map[string]bool) *pair {
	return &pair{
		kept:           kept,
		drops:          make(map[string]int64),
		pairGroups:     pairGroups{groups: make(map[groupID]*group), other: make(map[kind]int64), explanations: make(map[groupID]*explanations)},
		endpointCounts: endpointCounts{endpoints: make(map[endpoint]*passes), found: make(map[*Pattern]*passes)},
		labels:         make(map[labelID]*label), populations: newPopulations(),
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

// compared counts a comparison, and returns what [Sum.Count] does. uid is the unique ID of the experiment.
func (p *pair) compared(c Comparison, uid string) (ask Unexplained, explain bool) {
	o, at := c.Outcome, millis(c.Request.Time)
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
		return ask, false
	}
	for _, l := range o.labels {
		p.labelled(labelID{l.Name, int32(o.kind)}, l.Value)
	}
	return p.countDiffering(c, by, at)
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

// groupOf returns the group of an ID, made if there is none.
func (p *pair) groupOf(id groupID) *group {
	if g := p.groups[id]; g != nil {
		return g
	}
	if len(p.groups) >= slack*maxGroups {
		p.boundGroups(maxGroups)
	}
	g := &group{}
	p.groups[id] = g
	return g
}

// boundReason returns the ID of a group, with manyReasons in the place of a reason that is one too many.
func (p *pair) boundReason(id groupID) groupID {
	if id.reason == "" || p.isKnown(id) {
		return id
	}
	many := id
	if many.reason = manyReasons; p.isKnown(many) {
		return many
	}
	reasons := make(map[string]bool)
	note := func(other groupID) {
		if other.endpoint == id.endpoint {
			reason := other.reason
			if other.reason, other.cause = id.reason, id.cause; other == id {
				reasons[reason] = true
			}
		}
	}
	for other := range p.groups {
		note(other)
	}
	for other := range p.explanations {
		note(other)
	}
	if !reasons[id.reason] && (reasons[manyReasons] || len(reasons) >= maxReasons) {
		return many
	}
	return id
}

// isKnown reports whether requests of an ID without its cause were counted, as far as that is found at once.
func (p *pair) isKnown(id groupID) bool {
	if p.explanations[id] != nil || p.groups[id] != nil {
		return true
	}
	id.cause = noCause
	return p.groups[id] != nil
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
	p.endExplanations()
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

func (p *pair) addGroup(id groupID, g *group) {
	switch known := p.groups[id]; {
	case g.count == 0:
	case known != nil:
		known.add(g)
	default:
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
	for id, g := range p.allGroups() {
		out[id.pattern] += g.count
	}
	for path := range p.kept {
		if _, known := out[path]; known {
			out[path] += keptWeight
		}
	}
	return out
}

// rankedPatterns returns the path patterns of the groups by rank.
func (p *pair) rankedPatterns() []string {
	all := p.allGroups()
	out := make([]string, 0, len(all))
	for _, id := range rankGroups(all) {
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
	for id := range p.explanations {
		if _, ok := to[id.pattern]; ok {
			p.endExplanationsOf(id)
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
	if len(p.groups)+len(p.explanations) <= n || len(p.allGroups()) <= n {
		return
	}
	for id, known := range p.explanations {
		p.release(id, known, always)
	}
	for _, id := range rankGroups(p.groups)[min(n, len(p.groups)):] {
		p.other[id.kind] += p.groups[id].count
		delete(p.groups, id)
	}
}

// rankGroups returns the IDs of groups by rank.
func rankGroups(groups map[groupID]*group) []groupID {
	return rank(slices.Collect(maps.Keys(groups)), func(id groupID) ranked {
		g := groups[id]
		return ranked{id.kind, &g.callers, g.count}
	}, groupID.compare)
}

// message returns the pair, in an order that depends on nothing else.
func (p *pair) message(policyEtag string) *evidencepb.Pair {
	m := &evidencepb.Pair{
		PolicyEtag: policyEtag, Drops: maps.Clone(p.drops), Active: spanMessages(p.active),
		FirstTime: timeMessage(p.first), LastTime: timeMessage(p.last), Other: make(map[int32]int64), OtherEndpoints: p.otherEndpoints,
		Hours: p.hours.stored(), Items: p.items, Noise: p.noise,
		Pending: p.now.pending + p.explaining(), Unexamined: p.unexamined + p.now.unexamined,
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
	groups := p.allGroups()
	for _, id := range rankGroups(groups) {
		m.Groups = append(m.Groups, groups[id].message(id))
	}
	for _, id := range slices.SortedFunc(maps.Keys(p.labels), func(a, b labelID) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	}) {
		m.Labels = append(m.Labels, p.labels[id].message(id))
	}
	return m
}

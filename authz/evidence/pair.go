package evidence

import (
	"cmp"
	"maps"
	"slices"

	evidencepb "understudy/authz/evidence/v1"
)

// pair sums up what was compared with one live policy.
type pair struct {
	counts         counts
	drops          map[string]int64
	active         []span
	first, last    int64
	endpoints      map[endpoint]int64
	otherEndpoints int64
	groups         map[groupID]*groupSum
	other          map[int32]int64
	labels         map[labelID]*label
	rules          map[ruleID]*evidencepb.Rule
	moreRules      int64
	noise          *evidencepb.Noise
	changed        map[string]bool
	// since :: endpoint → since when it has its name, of those that have it late; folded is when a
	// name was taken here.
	since      map[endpoint]int64
	folded     int64
	pending    int64
	unexamined int64
}

// ruleID is what tells a rule from others.
type ruleID struct {
	side       int32
	file, name string
	line       int32
}

func newPair() *pair {
	return &pair{
		drops: make(map[string]int64), endpoints: make(map[endpoint]int64), groups: make(map[groupID]*groupSum),
		other: make(map[int32]int64), labels: make(map[labelID]*label), rules: make(map[ruleID]*evidencepb.Rule),
		changed: make(map[string]bool), since: make(map[endpoint]int64),
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

func (p *pair) merge(other *pair) { p.add(other.message("")) }

// add adds what was compared.
func (p *pair) add(m *evidencepb.Pair) {
	for i, n := range countsOf(m.GetCounts()) {
		p.counts[i] += n
	}
	for reason, n := range m.GetDrops() {
		p.drops[reason] += n
	}
	p.active = union(append(p.active, spansOf(m.GetActive())...))
	p.first, p.last = earlier(p.first, milliseconds(m.GetFirstTime())), max(p.last, milliseconds(m.GetLastTime()))
	p.addEndpoints(m)
	p.otherEndpoints += m.GetOtherEndpoints()
	for _, g := range m.GetGroups() {
		p.group(g)
	}
	for kind, n := range m.GetOther() {
		p.other[kind] += n
	}
	for _, l := range m.GetLabels() {
		p.label(l)
	}
	p.addRules(m)
	p.pending += m.GetPending()
	p.unexamined += m.GetUnexamined()
	p.addNoise(m.GetNoise())
	for _, path := range m.GetChangedData() {
		p.changed[path] = true
	}
}

// addEndpoints adds endpoints. Of one that only one side has, the other may have taken the name.
func (p *pair) addEndpoints(m *evidencepb.Pair) {
	for _, e := range m.GetEndpoints() {
		id := endpoint{e.GetMethod(), e.GetPattern()}
		if _, known := p.endpoints[id]; !known {
			p.named(id, p.folded)
		}
		p.endpoints[id] += e.GetCount()
		p.named(id, e.GetSince())
	}
	if m.GetFolded() > 0 {
		p.namedElsewhere(m)
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
	for id := range p.endpoints {
		if !there[id] {
			p.named(id, m.GetFolded())
		}
	}
}

// named notes that an endpoint has its name since then; 0 if it always had.
func (p *pair) named(id endpoint, since int64) {
	if since > p.since[id] {
		p.since[id] = since
	}
}

func (p *pair) group(g *evidencepb.Group) {
	id := idOf(g)
	switch known := p.groups[id]; {
	case known != nil:
		known.add(g)
	case g.GetCount() > 0: // otherwise it is counted as other by now
		p.groups[id] = newGroupSum(g)
	}
}

func (p *pair) label(m *evidencepb.Label) {
	id := labelID{m.GetLabel(), m.GetKind()}
	if known := p.labels[id]; known != nil {
		known.merge(labelOf(m))
	} else {
		p.labels[id] = labelOf(m)
	}
}

func (p *pair) addRules(m *evidencepb.Pair) {
	for _, r := range m.GetRules() {
		id := ruleID{r.GetSide(), r.GetFile(), r.GetName(), r.GetLine()}
		known := p.rules[id]
		p.rules[id] = &evidencepb.Rule{
			Side: r.GetSide(), File: r.GetFile(), Line: r.GetLine(), Name: r.GetName(),
			EvaluatedTrue:  r.GetEvaluatedTrue() || known.GetEvaluatedTrue(),
			EvaluatedFalse: r.GetEvaluatedFalse() || known.GetEvaluatedFalse(),
		}
	}
	p.moreRules = max(p.moreRules, m.GetMoreRules())
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

// bound moves what there is no room for to where it is counted as other.
func (p *pair) bound(crowds map[string]crowd) {
	p.fold(crowds)
	p.boundGroups(maxGroups)
	p.boundEndpoints()
	boundLabels(p.labels)
	for _, reason := range slices.Sorted(maps.Keys(p.drops))[min(maxDrops, len(p.drops)):] {
		p.drops["other"] += p.drops[reason]
		delete(p.drops, reason)
	}
	for _, id := range slices.SortedFunc(maps.Keys(p.rules), ruleID.compare)[min(maxRules, len(p.rules)):] {
		delete(p.rules, id)
		p.moreRules++
	}
	for _, path := range slices.Sorted(maps.Keys(p.changed))[min(maxChangedData, len(p.changed)):] {
		delete(p.changed, path)
	}
}

func (a ruleID) compare(b ruleID) int {
	return cmp.Or(cmp.Compare(a.side, b.side), cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.name, b.name))
}

// patterns :: path pattern → what it weighs: its requests; those that differ count twice, for they
// are what a report is about.
func (p *pair) patterns() map[string]int64 {
	out := make(map[string]int64, len(p.endpoints))
	for e, n := range p.endpoints {
		out[e.pattern] += n
	}
	for id, g := range p.groups {
		out[id.pattern] += g.Count
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
			delete(p.since, e)
			p.endpoints[endpoint{e.method, to}] += n
		}
	}
	for id, g := range maps.Clone(p.groups) {
		if to, ok := to[id.pattern]; ok {
			delete(p.groups, id)
			g.Pattern = to
			if known := p.groups[idOf(g.Group)]; known != nil {
				known.addSum(g)
			} else {
				p.groups[idOf(g.Group)] = g
			}
		}
	}
}

// boundGroups keeps the groups that a report needs most.
func (p *pair) boundGroups(n int) {
	if len(p.groups) <= n {
		return
	}
	for _, id := range p.groupIDs()[n:] {
		p.other[id.kind] += p.groups[id].Count
		delete(p.groups, id)
	}
}

// groupIDs returns those of the groups by rank.
func (p *pair) groupIDs() []groupID {
	return rank(slices.Collect(maps.Keys(p.groups)), func(id groupID) ranked {
		g := p.groups[id]
		return ranked{kind(id.kind), &g.callers, g.Count}
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
		return cmp.Or(cmp.Compare(grouped[b], grouped[a]), cmp.Compare(p.endpoints[b], p.endpoints[a]), a.compare(b))
	})
	for _, id := range ids[maxEndpoints:] {
		p.otherEndpoints += p.endpoints[id]
		delete(p.endpoints, id)
	}
}

func (a endpoint) compare(b endpoint) int {
	return cmp.Or(cmp.Compare(a.pattern, b.pattern), cmp.Compare(a.method, b.method))
}

// message returns the sum, in an order that depends on nothing else.
func (p *pair) message(policyEtag string) *evidencepb.Pair {
	m := &evidencepb.Pair{
		PolicyEtag: policyEtag, Counts: countsMessage(p.counts), Drops: maps.Clone(p.drops), Active: spanMessages(p.active),
		FirstTime: timeMessage(p.first), LastTime: timeMessage(p.last), Other: maps.Clone(p.other), OtherEndpoints: p.otherEndpoints,
		MoreRules: p.moreRules, Noise: p.noise, Pending: p.pending, Unexamined: p.unexamined,
		ChangedData: slices.Sorted(maps.Keys(p.changed)), Folded: p.folded,
	}
	for _, e := range slices.SortedFunc(maps.Keys(p.endpoints), endpoint.compare) {
		m.Endpoints = append(m.Endpoints, &evidencepb.Endpoint{Method: e.method, Pattern: e.pattern, Count: p.endpoints[e], Since: p.since[e]})
	}
	for _, id := range p.groupIDs() {
		m.Groups = append(m.Groups, p.groups[id].message())
	}
	for _, id := range slices.SortedFunc(maps.Keys(p.labels), func(a, b labelID) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	}) {
		m.Labels = append(m.Labels, p.labels[id].message(id))
	}
	for _, id := range slices.SortedFunc(maps.Keys(p.rules), ruleID.compare) {
		m.Rules = append(m.Rules, p.rules[id])
	}
	return m
}

package evidence

import (
	"maps"
	"slices"

	evidencepb "understudy/authz/evidence/v1"
)

// counter counts the comparisons with one live policy. It is guarded by its tally.
type counter struct {
	policyEtag  string
	counts      counts
	drops       map[string]int64
	first, last int64
	spans       []span
	endpoints   map[*Pattern]*int64
	groups      map[groupKey]*group
	other       map[int32]int64
	labels      map[labelID]*label
	rules       []*evidencepb.Rule
	moreRules   int64
	noise       *evidencepb.Noise
	changed     []string
	// pending and unexamined are as of now.
	pending, unexamined int64
}

func newCounter(policyEtag string) *counter {
	c := &counter{policyEtag: policyEtag, endpoints: make(map[*Pattern]*int64), groups: make(map[groupKey]*group)}
	c.forget()
	return c
}

// forget begins the sums anew.
func (c *counter) forget() {
	c.counts = counts{}
	c.drops, c.other, c.labels = make(map[string]int64), make(map[int32]int64), make(map[labelID]*label)
	c.noise = nil
}

// add counts a comparison.
func (c *counter) add(compared Comparison, at int64) (explain bool) {
	o := compared.Outcome
	c.counts[o.cell]++
	c.first, c.last = earlier(c.first, at), max(c.last, at)
	p := compared.Pattern
	n := c.endpoints[p]
	if n == nil {
		n = new(int64)
		c.endpoints[p] = n
	}
	*n++
	p.counted(at)
	if o.kind == unchanged {
		return false
	}
	for _, l := range o.labels {
		c.label(labelID{l.Name, int32(o.kind)}, l.Value)
	}
	g := c.group(groupKey{compared.groupPattern(), o.key()})
	return g.add(compared.Request, o, at)
}

// label counts the value of a label, unless there are too many names.
func (c *counter) label(id labelID, value string) {
	l := c.labels[id]
	if l == nil {
		if len(c.labels) == maxLabelNames*(kinds-1) {
			return
		}
		l = newLabel()
		c.labels[id] = l
	}
	l.add(value)
}

// group returns the group of a key, which it makes if need be.
func (c *counter) group(key groupKey) *group {
	if g := c.known(key); g != nil {
		return g
	}
	if key.reason != "" && c.reasons(key) >= maxReasons {
		key.reason = manyReasons
	}
	if len(c.groups) == 2*maxGroups {
		c.boundGroups()
	}
	g := &group{}
	c.groups[key] = g
	return g
}

// known returns the group of a key, or that of many reasons; nil if there is neither.
func (c *counter) known(key groupKey) *group {
	g := c.groups[key]
	if g == nil && key.reason != "" {
		key.reason = manyReasons
		g = c.groups[key]
	}
	return g
}

// boundGroups keeps those that a report needs most.
func (c *counter) boundGroups() {
	keys := rank(slices.Collect(maps.Keys(c.groups)), func(k groupKey) ranked {
		g := c.groups[k]
		return ranked{k.kind, &g.callers, g.total}
	}, groupKey.compare)
	for _, k := range keys[maxGroups:] {
		c.other[int32(k.kind)] += c.groups[k].count
		delete(c.groups, k)
	}
}

func (k groupKey) compare(other groupKey) int { return k.id().compare(other.id()) }

// id returns the key as sums have it.
func (k groupKey) id() groupID {
	return groupID{endpoint{k.pattern.method, k.pattern.path}, int32(k.kind), k.policyStatus, k.experimentStatus, k.rule, k.reason, k.changes}
}

// reasons is how many groups differ from a key in nothing but the reason.
func (c *counter) reasons(key groupKey) (n int) {
	for other := range c.groups {
		if other.pattern == key.pattern {
			if other.reason = key.reason; other == key {
				n++
			}
		}
	}
	return n
}

// flush returns what was counted since the last time, and begins anew. What is no sum is there
// each time.
func (c *counter) flush() *evidencepb.Pair {
	p := &evidencepb.Pair{
		PolicyEtag: c.policyEtag, Counts: countsMessage(c.counts), Drops: maps.Clone(c.drops), Active: spanMessages(c.spans),
		FirstTime: timeMessage(c.first), LastTime: timeMessage(c.last), Other: maps.Clone(c.other),
		Rules: c.rules, MoreRules: c.moreRules, Noise: c.noise, ChangedData: c.changed,
	}
	for pattern, n := range c.endpoints {
		p.Endpoints = append(p.Endpoints, &evidencepb.Endpoint{Method: pattern.method, Pattern: pattern.path, Count: *n, Since: pattern.lateSince(c.first)})
	}
	clear(c.endpoints)
	for key, g := range c.groups {
		if g.count > 0 || g.explained {
			g.explained = false
			p.Groups = append(p.Groups, g.message(key))
		}
	}
	for id, l := range c.labels {
		p.Labels = append(p.Labels, l.message(id))
	}
	c.thin()
	c.forget()
	return p
}

// thin makes room for groups that come now, if there is none: those that had nothing to count
// this time go. What they have counted is in the sum.
func (c *counter) thin() {
	full := len(c.groups) >= maxGroups
	for key, g := range c.groups {
		if full && g.count <= 1 {
			delete(c.groups, key)
		}
		g.count = 0
	}
}

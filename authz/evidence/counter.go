package evidence

import (
	"maps"

	evidencepb "understudy/authz/evidence/v1"
)

// counter counts the comparisons with one live policy. It is guarded by its tally.
type counter struct {
	policyEtag  string
	counts      counts
	drops       map[string]int64
	first, last int64
	spans       []span
	// folds is that of the patterns when the keys of these maps were theirs.
	folds     uint64
	endpoints map[*Pattern]*int64
	groups    map[groupKey]*group
	other     map[int32]int64
	labels    map[labelID]*label
	rules     []*evidencepb.Rule
	moreRules int64
	noise     *evidencepb.Noise
	changed   []string
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

// follow rekeys, if patterns were folded since the last time.
func (c *counter) follow(p *Patterns) {
	if folds := p.folds.Load(); c.folds != folds {
		c.rekey(folds)
	}
}

// rekey replaces patterns that were folded by those that they are now.
func (c *counter) rekey(folds uint64) {
	c.folds = folds
	endpoints := make(map[*Pattern]*int64, len(c.endpoints))
	for p, n := range c.endpoints {
		if known := endpoints[p.present()]; known != nil {
			*known += *n
		} else {
			endpoints[p.present()] = n
		}
	}
	groups := make(map[groupKey]*group, len(c.groups))
	for key, g := range c.groups {
		key.pattern = key.pattern.present()
		if known := groups[key]; known != nil {
			known.take(g)
		} else {
			groups[key] = g
		}
	}
	c.endpoints, c.groups = endpoints, groups
}

// take adds another group.
func (g *group) take(from *group) {
	g.count += from.count
	g.total += from.total
	g.first, g.last = earlier(g.first, from.first), max(g.last, from.last)
	g.callers.addAll(from.callers)
	g.examples = firstExamples(append(g.examples, from.examples...))
	if len(g.causes) == 0 {
		g.causes = from.causes
	}
}

// add counts a comparison.
func (c *counter) add(compared Comparison, at int64) (explain bool) {
	o := compared.Outcome
	c.counts[o.cell]++
	c.first, c.last = earlier(c.first, at), max(c.last, at)
	p := compared.Pattern.present()
	n := c.endpoints[p]
	if n == nil {
		n = new(int64)
		c.endpoints[p] = n
	}
	*n++
	if o.kind == unchanged {
		return false
	}
	for _, l := range o.labels {
		c.label(labelID{l.Name, int32(o.kind)}, l.Value)
	}
	g := c.group(groupKey{p, o.key()})
	if g == nil {
		c.other[int32(o.kind)]++
		return false
	}
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

// group returns the group of a key; nil if there are too many.
func (c *counter) group(key groupKey) *group {
	if g := c.known(key); g != nil {
		return g
	}
	if key.reason != "" && c.reasons(key) >= maxReasons {
		key.reason = manyReasons
	}
	if len(c.groups) == maxGroups {
		return nil
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
		if *n > 0 {
			p.Endpoints = append(p.Endpoints, &evidencepb.Endpoint{Method: pattern.method, Pattern: pattern.path, Count: *n})
			*n = 0
		}
	}
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
	full := len(c.groups) == maxGroups
	for key, g := range c.groups {
		if full && g.count <= 1 {
			delete(c.groups, key)
		}
		g.count = 0
	}
}

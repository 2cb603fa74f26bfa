package evidence

import "sync/atomic"

// pathNode is a node in the tree of paths.
type pathNode struct {
	// path is the pattern of the node, and segment the last of it.
	path, segment string
	// salt tells the words of this node from those of others in the sketch.
	salt uint64
	// children are those with a segment of their own, which may end with a verb: `*:cancel`.
	children []*pathNode
	// index :: segment → child, of the root alone: it may have many.
	index map[string]*pathNode
	// any is the child for what is variable, and rest for all that is below.
	any, rest *pathNode
	patterns  []*Pattern
	// late is as that of patterns; gone says that the node is none any more. crowded says that
	// there were more words than names: most of those without one may be ids.
	late, gone, crowded bool
	// kept says that the name is not taken away.
	kept bool
	weights
}

// weights say who has a name at a node.
type weights struct {
	// requests is how many end here, and credit how many there were below before it had its
	// name; both in half-lives.
	requests atomic.Int64
	credit   int64
	// lost is how many requests had a word here without a name, in half-lives, and lostEver in all.
	lost, lostEver atomic.Int64
	// bar is how often a word must have been counted to ask for a name; with 0 there is room. At
	// limit of those that were lost it is judged again who keeps one.
	bar   atomic.Uint32
	limit atomic.Int64
}

// lose counts requests of words without a name.
func (p *pathNode) lose(n int64) {
	p.lost.Add(n)
	p.lostEver.Add(n)
}

// word returns the child with exactly this segment; nil if there is none.
func (p *pathNode) word(segment string) *pathNode {
	if p.index != nil {
		return p.index[segment]
	}
	for _, c := range p.children {
		if c.segment == segment {
			return c
		}
	}
	return nil
}

// weight is how many requests there were here and below, in half-lives.
func (p *pathNode) weight() int64 {
	sum := p.credit + p.requests.Load()
	if p.kept {
		sum += keptWeight
	}
	p.each(func(c *pathNode) { sum += c.weight() })
	return sum
}

// each visits the nodes right below one.
func (p *pathNode) each(visit func(*pathNode)) {
	for _, c := range p.children {
		visit(c)
	}
	for _, c := range []*pathNode{p.any, p.rest} {
		if c != nil {
			visit(c)
		}
	}
}

// appendLeaves appends the words below a node that have no word below.
func (p *pathNode) appendLeaves(out []light) []light {
	p.each(func(c *pathNode) {
		before := len(out)
		out = c.appendLeaves(out)
		if len(out) == before && c.segment != anySegment && c.segment != anyRest {
			out = append(out, light{p, c, c.weight()})
		}
	})
	return out
}

// halve makes what was counted here and below count half, so many times.
func (p *pathNode) halve(times int) {
	p.requests.Store(p.requests.Load() >> times)
	p.credit >>= times
	lost := p.lost.Load() >> times
	p.lost.Store(lost)
	p.limit.Store(lost)
	p.crowded = p.crowded && lost > 0
	p.bar.Store(min(1, p.bar.Load(), uint32(min(lost, 1)))) // 0 or 1
	p.each(func(c *pathNode) { c.halve(times) })
}

// pattern returns the pattern of a method; nil if it is not known.
func (p *pathNode) pattern(method string) *Pattern {
	for _, known := range p.patterns {
		if known.method == method {
			return known
		}
	}
	return nil
}

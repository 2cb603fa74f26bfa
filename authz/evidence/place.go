package evidence

import "sync/atomic"

// place is a place in the tree of paths.
type place struct {
	// path is the pattern of the place, and segment the last of it.
	path, segment string
	// salt tells the words of this place from those of others in the sketch.
	salt uint64
	// children are those with a segment of their own, which may end with a verb: `*:cancel`.
	children []*place
	// index :: segment → child, of the root alone: it may have many.
	index map[string]*place
	// any is the child for what is variable, and rest for all that is below.
	any, rest *place
	patterns  []*Pattern
	// late is as that of patterns; gone says that the place is none any more. crowded says that
	// there were more words than names: most of those without one may be ids.
	late, gone, crowded bool
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
func (p *place) lose(n int64) {
	p.lost.Add(n)
	p.lostEver.Add(n)
}

// word returns the child with exactly this segment; nil if there is none.
func (p *place) word(segment string) *place {
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
func (p *place) weight() int64 {
	sum := p.credit + p.requests.Load()
	p.each(func(c *place) { sum += c.weight() })
	return sum
}

// each visits the places right below one.
func (p *place) each(visit func(*place)) {
	for _, c := range p.children {
		visit(c)
	}
	for _, c := range []*place{p.any, p.rest} {
		if c != nil {
			visit(c)
		}
	}
}

// appendLeaves appends the words below a place that have no word below.
func (p *place) appendLeaves(out []light) []light {
	p.each(func(c *place) {
		before := len(out)
		out = c.appendLeaves(out)
		if len(out) == before && c.segment != anySegment && c.segment != anyRest {
			out = append(out, light{p, c, c.weight()})
		}
	})
	return out
}

// halve makes what was counted here and below count half, so many times.
func (p *place) halve(times int) {
	p.requests.Store(p.requests.Load() >> times)
	p.credit >>= times
	lost := p.lost.Load() >> times
	p.lost.Store(lost)
	p.limit.Store(lost)
	p.crowded = p.crowded && lost > 0
	p.bar.Store(min(1, p.bar.Load(), uint32(min(lost, 1)))) //nolint:gosec // 0 or 1
	p.each(func(c *place) { c.halve(times) })
}

// pattern returns the pattern of a method; nil if it is not known.
func (p *place) pattern(method string) *Pattern {
	for _, known := range p.patterns {
		if known.method == method {
			return known
		}
	}
	return nil
}

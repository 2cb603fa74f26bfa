package evidence

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	// maxChildren is how many words of a node have a name, next to those of the first segment.
	maxChildren = 16
	// maxFirst is how many first segments a sum names: a gateway has more services than a
	// service has verbs. A node tries maxTried, for a sum to choose from, as long as half of the
	// nodes are free.
	maxFirst = 64
	maxTried = 256
	// Of a node with more words than names, a word keeps its name while it has one in keepShare
	// of the requests of all words that have not more than it, and gets one with one in
	// enterShare of those that have none, and minHeavy requests. So ids that look like words
	// are `*`, all of them, and the words next to them are not.
	keepShare  = 20
	enterShare = 10
	minHeavy   = 4
	// maxChanges is how many names may go to others in a second, and halfLife after how long a
	// request counts half when names are given.
	maxChanges = 64
	halfLife   = 10 * time.Minute
)

// names is how many words of a node may have a name.
func (s *Patterns) names(at *pathNode) int {
	switch {
	case at != s.root:
		return maxChildren
	case s.nodes < maxNodes/2:
		return maxTried
	}
	return maxFirst
}

// room reports whether there is room for another name at a node.
func (s *Patterns) room(at *pathNode) bool {
	return len(at.children) < s.names(at) && s.nodes < maxNodes
}

// enter reports whether a word that was asked for so often gets a name, for which another one
// may have to go. If not, it says how often a word must be asked for.
func (s *Patterns) enter(at *pathNode, asked int64) bool {
	at.crowded = at.crowded || len(at.children) >= s.names(at)
	need, may := int64(1), true
	if at != s.root && at.crowded && len(at.children) < maxChildren {
		need = max(minHeavy, at.lost.Load()/enterShare)
	}
	if asked >= need && len(at.children) >= s.names(at) {
		need, may = s.replace(s.lightest(at), at, asked)
	}
	if asked >= need && may && s.nodes >= maxNodes {
		if s.leaves == nil {
			s.leaves = lightOf(s.root.appendLeaves([]light{}))
		}
		need, may = s.replace(&s.leaves, at, asked)
	}
	at.bar.Store(uint32(max(1, min(need, math.MaxUint32))))
	return asked >= need && may
}

// light is a word that may lose its name, of a node, with what it weighed in this second.
type light struct {
	from, word *pathNode
	weight     int64
}

// lightOf returns those that weigh least, the lightest first.
func lightOf(all []light) []light {
	slices.SortStableFunc(all, func(a, b light) int { return cmp.Compare(a.weight, b.weight) })
	return all[:min(len(all), maxChanges)]
}

// replace takes the name from the lightest word for one below a node that was asked for so
// often, if it weighs less, and if there may be another change. It returns how often the word
// must be asked for.
func (s *Patterns) replace(least *[]light, at *pathNode, asked int64) (need int64, done bool) {
	for need = 1; len(*least) > 0; *least = (*least)[1:] {
		next := (*least)[0]
		if need = next.weight + 1; asked < need {
			return need, false
		}
		if next.word.gone || next.word.weight() >= asked || strings.HasPrefix(at.path+"/", next.word.path+"/") {
			continue
		}
		if s.mayChange() {
			s.unname(next.from, next.word)
			return need, true
		}
		break
	}
	return need, false
}

// mayChange reports whether another name may go to another word in this second.
func (s *Patterns) mayChange() bool {
	s.changes++
	return s.changes <= maxChanges
}

// lightest returns the words of a node that weigh least, of the root as of this second.
func (s *Patterns) lightest(at *pathNode) *[]light {
	if at == s.root && s.first != nil {
		return &s.first
	}
	least := make([]light, 0, len(at.children))
	for _, c := range at.children {
		least = append(least, light{at, c, c.weight()})
	}
	least = lightOf(least)
	if at == s.root {
		s.first = least
		return &s.first
	}
	return &least
}

// judge takes the names of an inner node from words that are no more than the many that have
// none.
func (s *Patterns) judge(at *pathNode) {
	if at == s.root {
		at.limit.Store(math.MaxInt64)
		return
	}
	weights, all := make(map[*pathNode]int64, len(at.children)), at.lost.Load()
	for _, c := range at.children {
		weights[c] = max(1, c.weight())
		all += weights[c]
	}
	children := slices.SortedFunc(slices.Values(at.children), func(a, b *pathNode) int { return cmp.Compare(weights[b], weights[a]) })
	for i, c := range children {
		if weights[c]*keepShare >= all {
			all -= weights[c]
			continue
		}
		for _, light := range children[i:] {
			if s.mayChange() {
				s.unname(at, light)
			}
		}
		break
	}
	lost := at.lost.Load()
	at.limit.Store(lost + max(4, lost/8))
}

// name makes the node of a word, which was asked for so often before.
func (s *Patterns) name(at *pathNode, segment string, before int64) *pathNode {
	child := s.newNode(at, segment)
	child.credit, child.late = before, at.late || at.lostEver.Load() > 0
	at.children = append(at.children, child)
	if at.index != nil {
		at.index[child.segment] = child
	}
	return child
}

// unname takes the name from a word: those who ask for it are counted as `*` from now on.
func (s *Patterns) unname(at, child *pathNode) {
	at.children = slices.DeleteFunc(at.children, func(c *pathNode) bool { return c == child })
	if at.index != nil {
		delete(at.index, child.segment)
	}
	word, _ := wordOf(child.segment)
	weight := child.weight()
	s.unnamed.add(at.salt, word, uint32(min(weight, math.MaxUint32/2))) // bounded
	at.lose(weight)
	s.remove(child)
}

// remove counts a node and all below it out.
func (s *Patterns) remove(p *pathNode) {
	p.gone = true
	s.nodes--
	s.made -= len(p.patterns)
	p.each(s.remove)
}

// crowd is what is known of the words of a node of which not all have a name.
type crowd struct {
	// lost is how many requests had a word without a name.
	lost int64
	// named are the words that have one.
	named map[string]bool
}

// crowds :: path of a node → its words, of the nodes where not all have a name; but of the
// first segment none.
func (s *Patterns) crowds() map[string]crowd {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make(map[string]crowd)
	s.root.each(func(c *pathNode) { c.addCrowds(out) })
	return out
}

func (p *pathNode) addCrowds(out map[string]crowd) {
	if lost := p.lostEver.Load(); lost > 0 {
		c := crowd{lost, make(map[string]bool, len(p.children))}
		for _, child := range p.children {
			c.named[child.segment] = true
		}
		out[p.path] = c
	}
	p.each(func(c *pathNode) { c.addCrowds(out) })
}

package evidence

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// maxChildren is how many segments a place may have before they are one `*`.
	maxChildren = 16
	// maxFirst is how many first segments a sum may have: a gateway has more services than a
	// service has verbs. Beyond it those with fewest requests are `*`, and no others: a scanner
	// that tries paths which nobody has must not take the names from those that are there.
	maxFirst = 64
	// maxTried is how many first segments are counted by themselves to find those with most
	// requests, as long as half of the places are free. Beyond it one is folded for a new one.
	maxTried = 256
	// maxEvicted is how many are folded like that in all, for each costs all counters a look at
	// their patterns. Then no other first segment gets a place.
	maxEvicted = 1024
	// maxDepth is how many segments of a path are told apart.
	maxDepth = 12
	// maxPlaces and maxPatterns bound what is kept, whatever paths there are. A few more of
	// both are made to fold what is beyond.
	maxPlaces   = 1024
	maxPatterns = 2048
	// maxMethods is how many methods are told apart beside those of HTTP, and maxMethod how long
	// one may be.
	maxMethods = 24
	maxMethod  = 32
)

// Patterns fold the methods and paths of requests into few patterns. Those of one live policy
// are shared by its experiments. A segment that looks like an identifier is `*`; so are all
// segments of a place, once there are more than 16. Of more than 256 first segments, those
// with fewest requests are `*`; a sum has 64 of them. Memory is bounded, whatever paths there
// are. They are safe for concurrent use.
type Patterns struct {
	// folds counts how often patterns have become others.
	folds atomic.Uint64

	mu sync.RWMutex
	// root is where paths begin, and elsewhere for those that do not begin with a slash.
	root, elsewhere *place
	places, made    int
	// evicted counts the first segments that were folded.
	evicted int
	methods []string
}

// Pattern is a method and a path pattern. The method of a reservation is its call; it has no
// path.
type Pattern struct {
	method, path string
	// into is what it was folded into; nil if it was not.
	into atomic.Pointer[Pattern]
}

// Method returns the method, or `*` where there are too many.
func (p *Pattern) Method() string { return p.present().method }

// Path returns the path pattern, such as /orders/*.
func (p *Pattern) Path() string { return p.present().path }

// present returns the pattern that it is now.
func (p *Pattern) present() *Pattern {
	for {
		next := p.into.Load()
		if next == nil {
			return p
		}
		p = next
	}
}

// place is a place in the tree of paths.
type place struct {
	// path is the pattern of the place, and segment the last of it.
	path, segment string
	// children are those with a segment of their own, which may end with a verb: `*:cancel`.
	children []*place
	// index :: segment → child, of the root alone: it may have many.
	index map[string]*place
	// any is the child for what is variable, and rest for all that is below.
	any, rest *place
	// collapsed says that there were too many children.
	collapsed bool
	patterns  []*Pattern
	// first is the place of the first segment of the path, or nil; requests, of such a place,
	// is how many there were below it.
	first    *place
	requests atomic.Int64
}

// count counts a request.
func (p *place) count() {
	if p.first != nil {
		p.first.requests.Add(1)
	}
}

// NewPatterns returns patterns that know no path.
func NewPatterns() *Patterns {
	return &Patterns{root: &place{index: make(map[string]*place)}, elsewhere: &place{path: anySegment}}
}

// Of returns the pattern of a request. The path has no query.
func (s *Patterns) Of(method, path string) *Pattern {
	s.mu.RLock()
	at := s.find(path)
	var p *Pattern
	if at != nil {
		if p = at.pattern(s.known(method)); p != nil {
			at.count()
		}
	}
	s.mu.RUnlock()
	if p != nil {
		return p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at = s.make(path)
	at.count()
	return s.pattern(at, s.register(method))
}

// segments cuts the first segment off the rest of a path.
func segments(rest string) (segment, after string, more bool) { return strings.Cut(rest, "/") }

// find returns the place of a path; nil if it is not known.
func (s *Patterns) find(path string) *place {
	if path == "" {
		return s.root
	}
	if path[0] != '/' {
		return s.elsewhere
	}
	at, rest, more := s.root, path[1:], true
	for depth := 0; at != nil && more; depth++ {
		if depth == maxDepth {
			return at.rest
		}
		var segment string
		segment, rest, more = segments(rest)
		at = at.child(segment)
	}
	return at
}

// child returns the place of a segment; nil if it is not known.
func (p *place) child(segment string) *place {
	if p.collapsed {
		return p.any
	}
	if c := p.word(segment); c != nil {
		return c
	}
	name, verb := split(segment)
	if !variable(name) {
		return nil
	}
	if verb == "" {
		return p.any
	}
	for _, c := range p.children {
		if rest, ok := strings.CutPrefix(c.segment, anySegment); ok && rest == verb {
			return c
		}
	}
	return nil
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

// make returns the place of a path, which it makes if need be.
func (s *Patterns) make(path string) *place {
	if at := s.find(path); at != nil {
		return at
	}
	at, rest, more := s.root, path[1:], true
	for depth := 0; more; depth++ {
		if depth == maxDepth {
			return s.rest(at)
		}
		var segment string
		segment, rest, more = segments(rest)
		next := at.child(segment)
		if next == nil {
			next = s.add(at, segment)
		}
		if at = next; at.segment == anyRest {
			return at
		}
	}
	return at
}

// add makes the place of a segment.
func (s *Patterns) add(at *place, segment string) *place {
	name, verb := split(segment)
	if variable(name) {
		segment = anySegment + verb
	}
	switch {
	case at.collapsed || segment == anySegment:
		return s.any(at)
	case at == s.root:
		return s.addFirst(segment)
	case s.places < maxPlaces:
	case len(at.children) > 0:
		s.collapse(at)
		return at.any
	default:
		return s.rest(at)
	}
	child := s.place(at, segment)
	at.children = append(at.children, child)
	if len(at.children) > maxChildren {
		s.collapse(at)
		return at.any
	}
	return child
}

// addFirst makes the place of a first segment, for which another one may have to go.
func (s *Patterns) addFirst(segment string) *place {
	first := len(s.root.children)
	full := first >= maxTried || first >= maxFirst && s.places >= maxPlaces/2
	if s.places >= maxPlaces || full && s.evicted == maxEvicted {
		return s.any(s.root)
	}
	if full {
		s.evict()
	}
	child := s.place(s.root, segment)
	s.root.children = append(s.root.children, child)
	s.root.index[child.segment] = child
	return child
}

// evict folds the first segment with fewest requests; of several the oldest.
func (s *Patterns) evict() {
	least := slices.MinFunc(s.root.children, func(a, b *place) int { return cmp.Compare(a.requests.Load(), b.requests.Load()) })
	s.root.children = slices.DeleteFunc(s.root.children, func(c *place) bool { return c == least })
	delete(s.root.index, least.segment)
	s.fold(least, s.any(s.root))
	s.evicted++
	s.folds.Add(1)
}

func (s *Patterns) place(at *place, segment string) *place {
	s.places++
	p := &place{path: at.path + "/" + segment, segment: strings.Clone(segment), first: at.first}
	if at == s.root {
		p.first = p
	}
	return p
}

// any returns the place of what is variable. At the bound it is the last one of its path.
func (s *Patterns) any(at *place) *place {
	if at.any == nil {
		if s.places >= 2*maxPlaces {
			return s.rest(at)
		}
		at.any = s.place(at, anySegment)
	}
	return at.any
}

// rest returns the place of all that is below.
func (s *Patterns) rest(at *place) *place {
	if at.rest == nil {
		at.rest = s.place(at, anyRest)
	}
	return at.rest
}

// collapse makes one of all children of a place.
func (s *Patterns) collapse(at *place) {
	children := at.children
	at.children, at.collapsed = nil, true
	if at.any == nil {
		at.any = s.place(at, anySegment)
	}
	for _, c := range children {
		s.fold(c, at.any)
	}
	s.folds.Add(1)
}

// fold makes a place and what is below it part of another.
func (s *Patterns) fold(from, to *place) {
	s.places--
	for _, p := range from.patterns {
		p.into.Store(s.pattern(to, p.method))
		s.made--
	}
	if from.collapsed && !to.collapsed && to.segment != anyRest {
		s.collapse(to)
	}
	for _, c := range from.below() {
		s.fold(c, s.under(to, c.segment))
	}
}

// below returns all places below one.
func (p *place) below() []*place {
	out := slices.Clone(p.children)
	for _, c := range []*place{p.any, p.rest} {
		if c != nil {
			out = append(out, c)
		}
	}
	return out
}

// under returns the place that one with a segment is folded into below another.
func (s *Patterns) under(to *place, segment string) *place {
	switch {
	case to.segment == anyRest: // nothing is below it
		return to
	case segment == anyRest:
		return s.rest(to)
	case segment == anySegment:
		return s.any(to)
	}
	if known := to.child(segment); known != nil {
		return known
	}
	return s.add(to, segment)
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

// pattern returns the pattern of a method at a place, which it makes if need be.
func (s *Patterns) pattern(at *place, method string) *Pattern {
	if s.made >= maxPatterns && at.pattern(method) == nil {
		method = anySegment
	}
	p := at.pattern(method)
	if p == nil {
		p = &Pattern{method: method, path: at.path}
		at.patterns = append(at.patterns, p)
		s.made++
	}
	return p
}

// known returns a method as patterns have it; `*` if it is not known. Those of HTTP always are,
// whatever other methods came before.
func (s *Patterns) known(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE":
		return method
	}
	for _, m := range s.methods {
		if m == method {
			return m
		}
	}
	return anySegment
}

// register returns a method as patterns have it, and knows it from now on, if there is room.
func (s *Patterns) register(method string) string {
	if known := s.known(method); known != anySegment || !nameable(method) || len(s.methods) == maxMethods {
		return known
	}
	method = strings.Clone(method)
	s.methods = append(s.methods, method)
	return method
}

// nameable reports whether a method may stand in a report.
func nameable(method string) bool {
	for i := range len(method) {
		if c := method[i] | 0x20; (c < 'a' || c > 'z') && method[i] != '-' && method[i] != '_' {
			return false
		}
	}
	return len(method) <= maxMethod
}

// collapsed returns the places whose children are folded.
func (s *Patterns) collapsed() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.root.appendCollapsed(nil)
}

func (p *place) appendCollapsed(out []string) []string {
	if p.collapsed {
		out = append(out, p.path)
	}
	for _, c := range p.below() {
		out = c.appendCollapsed(out)
	}
	return out
}

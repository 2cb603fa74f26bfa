package evidence

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxDepth is how many segments of a path are kept apart.
	maxDepth = 12
	// maxNodes and maxPatterns bound what is kept, whatever paths there are. A few more of
	// both are made for what is beyond.
	maxNodes    = 1024
	maxPatterns = 2048
	// maxKeptPaths is how many path patterns are kept, and keptWeight what each weighs: more than all requests.
	maxKeptPaths = 100
	keptWeight   = 1 << 48
	// maxMethods is how many methods are kept apart, next to those of HTTP, and maxMethod how long
	// one may be.
	maxMethods = 24
	maxMethod  = 32
)

// Patterns fold the methods and paths of requests into few patterns. Those of one live policy
// are shared by its experiments. A segment that looks like an identifier is `*`. The others are
// words, and have their names where there is room; where there is not, those have them that most
// requests have, and the rest is `*`. A sketch counts the words without a name: no name is given
// or taken for good, and a word that nobody asks for twice takes none. Memory is bounded,
// whatever paths there are. They are safe for concurrent use.
type Patterns struct {
	clock func() time.Time
	// unnamed counts the words without a name, each at its node.
	unnamed *sketch

	mu sync.RWMutex
	// root is where paths begin, and elsewhere for those that do not begin with a slash.
	root, elsewhere *pathNode
	nodes, made     int
	salts           uint64
	methods         []string
	// changes are the names that went to others in the second. first and leaves are the words that
	// weigh least in it, those of all first segments and of all that have no word below; nil as long
	// as nobody has asked.
	second, changes int64
	first, leaves   []light
	// halved is when all requests were made to count half, the last time.
	halved time.Time
	// kept are the nodes whose names are not taken away.
	kept []*pathNode
}

// Keep sets the path patterns whose names are not taken away, as [Patterns.Of] has made them: at most maxKeptPaths.
func (s *Patterns) Keep(paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range s.kept {
		node.kept = false
	}
	s.kept = s.kept[:0]
	s.first, s.leaves = nil, nil
	for _, path := range paths[:min(maxKeptPaths, len(paths))] {
		if node := s.named(path); node != nil {
			node.kept = true
			s.kept = append(s.kept, node)
		}
	}
}

// named returns the node of a path pattern, which it makes if need be, also where all names are taken.
func (s *Patterns) named(path string) *pathNode {
	at, rest, more := s.root, strings.TrimPrefix(path, "/"), strings.HasPrefix(path, "/")
	for depth := 0; more; depth++ {
		var segment string
		segment, rest, more = segments(rest)
		next := at.word(segment)
		switch {
		case segment == anySegment:
			next = s.any(at)
		case segment == anyRest || depth == maxDepth:
			return s.rest(at)
		case next == nil:
			next = s.name(at, segment, 0)
		}
		at = next
	}
	return at
}

// Pattern is a method and a path pattern. The method of a reservation is its call; it has no
// path.
type Pattern struct {
	method, path string
	// late says that requests of the pattern may have been counted as `*` before there was it,
	// and since is when the first was counted after that.
	late  bool
	since atomic.Int64
}

// counted notes that a request was counted, at a time in Unix milliseconds.
func (p *Pattern) counted(at int64) {
	if p.late && p.since.Load() == 0 {
		p.since.Store(at)
	}
}

// lateSince returns since when requests are counted by the pattern, if there may be others among
// those that were counted since a time; else 0.
func (p *Pattern) lateSince(first int64) int64 {
	if since := p.since.Load(); since > first {
		return since
	}
	return 0
}

// Method returns the method, or `*` where there are too many.
func (p *Pattern) Method() string { return p.method }

// Path returns the path pattern, such as /orders/*.
func (p *Pattern) Path() string { return p.path }

// NewPatterns returns patterns that know no path.
func NewPatterns() *Patterns {
	return &Patterns{
		clock: time.Now, unnamed: newSketch(pathColumns), halved: time.Now(),
		root: &pathNode{index: make(map[string]*pathNode)}, elsewhere: &pathNode{path: anySegment},
	}
}

// Method is that of a request: of HTTP, or the call of a reservation.
type Method string

// Of returns the pattern of a request, which it counts. The path has no query.
func (s *Patterns) Of(m Method, path string) *Pattern {
	method := string(m)
	s.mu.RLock()
	at, counted := s.find(path)
	var p *Pattern
	if at != nil {
		if p = at.pattern(s.known(method)); p != nil {
			at.requests.Add(1)
		}
	}
	s.mu.RUnlock()
	if p != nil {
		return p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	at = s.make(path, counted)
	at.requests.Add(1)
	return s.pattern(at, s.register(method))
}

// segments cuts the first segment off the rest of a path.
func segments(rest string) (segment, after string, more bool) { return strings.Cut(rest, "/") }

// find returns the node of a path, and counts its words that have no name; nil if it is not
// known, or if a word asks for a name. Those of so many segments were counted.
func (s *Patterns) find(path string) (at *pathNode, counted int) {
	if path == "" {
		return s.root, 0
	}
	if path[0] != '/' {
		return s.elsewhere, 0
	}
	at, rest, more := s.root, path[1:], true
	for ; at != nil && more; counted++ {
		if counted == maxDepth {
			return at.rest, counted
		}
		var segment string
		segment, rest, more = segments(rest)
		at = s.child(at, segment)
	}
	return at, counted
}

// child returns the node of a segment, counted if it has no name; nil if it is not known, or
// if it asks for a name.
func (s *Patterns) child(p *pathNode, segment string) *pathNode {
	if c := p.word(segment); c != nil {
		return c
	}
	word, verb := wordOf(segment)
	if verb && word == "" {
		return p.any
	}
	if verb {
		for _, c := range p.children {
			if rest, ok := strings.CutPrefix(c.segment, anySegment); ok && rest == word {
				return c
			}
		}
	}
	bar := p.bar.Load()
	if bar == 0 || s.unnamed.add(p.salt, word, 1) >= bar || p.lost.Load() >= p.limit.Load() {
		return nil
	}
	p.lose(1)
	return p.any
}

// make returns the node of a path, which it makes if need be. The words of so many segments
// were counted.
func (s *Patterns) make(path string, counted int) *pathNode {
	if path == "" {
		return s.root
	}
	if path[0] != '/' {
		return s.elsewhere
	}
	at, rest, more := s.root, path[1:], true
	for depth := 0; more; depth++ {
		if depth == maxDepth {
			return s.rest(at)
		}
		var segment string
		segment, rest, more = segments(rest)
		if at = s.below(at, segment, depth < counted); at.segment == anyRest {
			return at
		}
	}
	return at
}

// below returns the node of a segment below another, which it makes if need be; counted says
// that the sketch has it already.
func (s *Patterns) below(at *pathNode, segment string, counted bool) *pathNode {
	word, verb := wordOf(segment)
	if verb && word == "" {
		return s.any(at)
	}
	if verb {
		segment = anySegment + word
	}
	if c := at.word(segment); c != nil {
		return c
	}
	contested := at.bar.Load() > 0
	if !contested && s.room(at) {
		return s.name(at, segment, 0)
	}
	n := uint32(1)
	if counted && contested {
		n = 0
	}
	asked := int64(s.unnamed.add(at.salt, word, n))
	if s.enter(at, asked) {
		return s.name(at, segment, asked-1)
	}
	at.lose(1)
	if at.lost.Load() >= at.limit.Load() {
		s.judge(at)
	}
	return s.any(at)
}

// tick begins another second, and makes all that was counted count half for each half-life since
// the last time.
func (s *Patterns) tick() {
	now := s.clock()
	if at := now.Unix(); at != s.second {
		s.second, s.changes, s.first, s.leaves = at, 0, nil, nil
	}
	times := int(now.Sub(s.halved) / halfLife)
	if times <= 0 {
		return
	}
	s.halved = s.halved.Add(time.Duration(times) * halfLife)
	times = min(times, 31)
	s.unnamed.halve(times)
	s.root.halve(times)
}

func (s *Patterns) newNode(at *pathNode, segment string) *pathNode {
	s.nodes++
	s.salts += 0x9E3779B97F4A7C15
	return &pathNode{path: at.path + "/" + segment, segment: strings.Clone(segment), salt: s.salts, late: at.late}
}

// any returns the node of what is variable. At the bound it is the last one of its path.
func (s *Patterns) any(at *pathNode) *pathNode {
	if at.any == nil {
		if s.nodes >= 2*maxNodes {
			return s.rest(at)
		}
		at.any = s.newNode(at, anySegment)
	}
	return at.any
}

// rest returns the node of all that is below.
func (s *Patterns) rest(at *pathNode) *pathNode {
	if at.rest == nil {
		at.rest = s.newNode(at, anyRest)
	}
	return at.rest
}

// pattern returns the pattern of a method at a node, which it makes if need be.
func (s *Patterns) pattern(at *pathNode, method string) *Pattern {
	if s.made >= maxPatterns && at.pattern(method) == nil {
		method = anySegment
	}
	p := at.pattern(method)
	if p == nil {
		p = &Pattern{method: method, path: at.path, late: at.late}
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
	if known := s.known(method); known != anySegment || !nameable(method) || len(s.methods) == maxMethods || s.made >= maxPatterns/2 {
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

package evidence

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxChildren is how many words of a place have a name, beside those of the first segment.
	maxChildren = 16
	// maxFirst is how many first segments a sum names: a gateway has more services than a
	// service has verbs. A node tries maxTried, for a sum to choose from, as long as half of the
	// places are free.
	maxFirst = 64
	maxTried = 256
	// Of a place with more words than names, a word keeps its name while it has one in keepShare
	// of the requests of all words that have not more than it, and gets one with one in
	// enterShare of those that have none, and minHeavy requests. So ids that look like words
	// are `*`, all of them, and those words are not that ids stand beside.
	keepShare  = 20
	enterShare = 10
	minHeavy   = 4
	// maxChanges is how many names may go to others in a second, and halfLife after how long a
	// request counts half when names are given.
	maxChanges = 64
	halfLife   = 10 * time.Minute
	// maxDepth is how many segments of a path are told apart.
	maxDepth = 12
	// maxPlaces and maxPatterns bound what is kept, whatever paths there are. A few more of
	// both are made for what is beyond.
	maxPlaces   = 1024
	maxPatterns = 2048
	// maxMethods is how many methods are told apart beside those of HTTP, and maxMethod how long
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
	// unnamed counts the words without a name, each at its place.
	unnamed *sketch

	mu sync.RWMutex
	// root is where paths begin, and elsewhere for those that do not begin with a slash.
	root, elsewhere *place
	places, made    int
	salts           uint64
	methods         []string
	// changes are the names that went to others in the second. first and leaves are the words that
	// weigh least in it, those of all first segments and of all that have no word below; nil as long
	// as nobody has asked.
	second, changes int64
	first, leaves   []light
	// halved is when all requests were made to count half, the last time.
	halved time.Time
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

// NewPatterns returns patterns that know no path.
func NewPatterns() *Patterns {
	return &Patterns{
		clock: time.Now, unnamed: newSketch(pathColumns), halved: time.Now(),
		root: &place{index: make(map[string]*place)}, elsewhere: &place{path: anySegment},
	}
}

// Of returns the pattern of a request, which it counts. The path has no query.
func (s *Patterns) Of(method, path string) *Pattern {
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

// find returns the place of a path, and counts its words that have no name; nil if it is not
// known, or if a word asks for a name. Those of so many segments were counted.
func (s *Patterns) find(path string) (at *place, counted int) {
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

// child returns the place of a segment, counted if it has no name; nil if it is not known, or
// if it asks for a name.
func (s *Patterns) child(p *place, segment string) *place {
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

// lose counts requests of words without a name.
func (p *place) lose(n int64) {
	p.lost.Add(n)
	p.lostEver.Add(n)
}

// wordOf returns the word of a segment, or the verb behind an identifier; that is empty if there
// is none.
func wordOf(segment string) (word string, verb bool) {
	name, behind := split(segment)
	if variable(name) {
		return behind, true
	}
	return segment, false
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

// make returns the place of a path, which it makes if need be. The words of so many segments
// were counted.
func (s *Patterns) make(path string, counted int) *place {
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

// below returns the place of a segment below another, which it makes if need be; counted says
// that the sketch has it already.
func (s *Patterns) below(at *place, segment string, counted bool) *place {
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

// names is how many words of a place may have a name.
func (s *Patterns) names(at *place) int {
	switch {
	case at != s.root:
		return maxChildren
	case s.places < maxPlaces/2:
		return maxTried
	}
	return maxFirst
}

// room reports whether there is room for another name at a place.
func (s *Patterns) room(at *place) bool {
	return len(at.children) < s.names(at) && s.places < maxPlaces
}

// enter reports whether a word that was asked for so often gets a name, for which another one
// may have to go. If not, it says how often a word must be asked for.
func (s *Patterns) enter(at *place, asked int64) bool {
	at.crowded = at.crowded || len(at.children) >= s.names(at)
	need, may := int64(1), true
	if at != s.root && at.crowded && len(at.children) < maxChildren {
		need = max(minHeavy, at.lost.Load()/enterShare)
	}
	if asked >= need && len(at.children) >= s.names(at) {
		need, may = s.replace(s.lightest(at), at, asked)
	}
	if asked >= need && may && s.places >= maxPlaces {
		if s.leaves == nil {
			s.leaves = *lightOf(s.root.appendLeaves([]light{}))
		}
		need, may = s.replace(&s.leaves, at, asked)
	}
	at.bar.Store(uint32(max(1, min(need, math.MaxUint32))))
	return asked >= need && may
}

// light is a word that may lose its name, of a place, with what it weighed in this second.
type light struct {
	from, word *place
	weight     int64
}

// lightOf returns those that weigh least, the lightest first.
func lightOf(all []light) *[]light {
	slices.SortStableFunc(all, func(a, b light) int { return cmp.Compare(a.weight, b.weight) })
	all = all[:min(len(all), maxChanges)]
	return &all
}

// replace takes the name from the lightest word for one below a place that was asked for so
// often, if it weighs less, and if there may be another change. It returns how often the word
// must be asked for.
func (s *Patterns) replace(least *[]light, at *place, asked int64) (need int64, done bool) {
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

// weight is how many requests there were here and below, in half-lives.
func (p *place) weight() int64 {
	sum := p.credit + p.requests.Load()
	p.each(func(c *place) { sum += c.weight() })
	return sum
}

// lightest returns the words of a place that weigh least.
func (s *Patterns) lightest(at *place) *[]light {
	if at == s.root && s.first != nil {
		return &s.first
	}
	all := make([]light, 0, len(at.children))
	for _, c := range at.children {
		all = append(all, light{at, c, c.weight()})
	}
	least := lightOf(all)
	if at == s.root {
		s.first = *least
		return &s.first
	}
	return least
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

// judge takes the names of an inner place from words that are no more than the many that have
// none.
func (s *Patterns) judge(at *place) {
	if at == s.root {
		at.limit.Store(math.MaxInt64)
		return
	}
	weights, all := make(map[*place]int64, len(at.children)), at.lost.Load()
	for _, c := range at.children {
		weights[c] = max(1, c.weight())
		all += weights[c]
	}
	children := slices.SortedFunc(slices.Values(at.children), func(a, b *place) int { return cmp.Compare(weights[b], weights[a]) })
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

// name makes the place of a word, which was asked for so often before.
func (s *Patterns) name(at *place, segment string, before int64) *place {
	child := s.place(at, segment)
	child.credit, child.late = before, at.late || at.lostEver.Load() > 0
	at.children = append(at.children, child)
	if at.index != nil {
		at.index[child.segment] = child
	}
	return child
}

// unname takes the name from a word: those who ask for it are counted as `*` from now on.
func (s *Patterns) unname(at, child *place) {
	at.children = slices.DeleteFunc(at.children, func(c *place) bool { return c == child })
	if at.index != nil {
		delete(at.index, child.segment)
	}
	word, _ := wordOf(child.segment)
	weight := child.weight()
	s.unnamed.add(at.salt, word, uint32(min(weight, math.MaxUint32/2))) //nolint:gosec // bounded
	at.lose(weight)
	s.remove(child)
}

// remove counts a place and all below it out.
func (s *Patterns) remove(p *place) {
	p.gone = true
	s.places--
	s.made -= len(p.patterns)
	p.each(s.remove)
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

func (s *Patterns) place(at *place, segment string) *place {
	s.places++
	s.salts += 0x9E3779B97F4A7C15
	return &place{path: at.path + "/" + segment, segment: strings.Clone(segment), salt: s.salts, late: at.late}
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

// crowd is what is known of the words of a place of which not all have a name.
type crowd struct {
	// lost is how many requests had a word without a name.
	lost int64
	// named are the words that have one.
	named map[string]bool
}

// crowds :: path of a place → its words, of the places where not all have a name; but of the
// first segment none.
func (s *Patterns) crowds() map[string]crowd {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make(map[string]crowd)
	s.root.each(func(c *place) { c.addCrowds(out) })
	return out
}

func (p *place) addCrowds(out map[string]crowd) {
	if lost := p.lostEver.Load(); lost > 0 {
		c := crowd{lost, make(map[string]bool, len(p.children))}
		for _, child := range p.children {
			c.named[child.segment] = true
		}
		out[p.path] = c
	}
	p.each(func(c *place) { c.addCrowds(out) })
}

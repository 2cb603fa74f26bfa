package opaque

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"sync/atomic"

	"github.com/maypok86/otter/v2"
	"github.com/open-policy-agent/opa/v1/ast"
)

// Few tokens (JWT) are in use, each comes with many requests, and what follows from one is the same each time. So
// look-ups cache the answers that follow from the text of a token alone. The next look-up with the same text does not
// decode it.

const (
	// maxCachedText is the length of the longest text of which answers are cached, in bytes.
	maxCachedText = 16 << 10
	// mostAnswersOfText and mostContentsOfText are how many answers and contents are cached of one text.
	mostAnswersOfText  = 64
	mostContentsOfText = 32
	// firstTexts is how many texts that came once are remembered, by 64 bits of their hashes.
	firstTexts = 4096
)

// What parts of an answer cache take, in bytes. A content has at most a number of usualDigits.
const (
	bytesPerText    = 320
	bytesPerAnswer  = 24
	bytesPerContent = 160
	bytesOfFirst    = firstTexts * 8
)

// answerCache has the answers of one vocabulary that follow from single texts. Its keys are hashes under the key of
// the process (see [Answer]), so it has no text of a request. It is bounded in bytes, and safe for concurrent use.
//
// A text is cached when it comes for the second time: a caller that sends a new token with each request makes no
// entries. The eviction (TinyLFU) prefers texts that come often.
type answerCache struct {
	texts *otter.Cache[Answer, *textAnswers]
	// first :: part of a hash → the rest of the hash of the last text that was not cached.
	first [firstTexts]atomic.Uint64
}

// textAnswers are the cached answers of one text. They are immutable.
type textAnswers struct {
	// from (inclusive) and until (exclusive) are when they are right, in nanoseconds since 1970.
	from, until int64
	// clock is the one derivation by the clock on which answers may rest; nil if there is none.
	clock    *derivation
	answers  []Entry
	contents []cachedContent
}

// cachedContent is the content of a derivation: absent, a part of the program or a number, never a text of a request.
type cachedContent struct {
	derivation *derivation
	content
}

func newAnswerCache(bytes uint64) *answerCache {
	return &answerCache{texts: otter.Must(&otter.Options[Answer, *textAnswers]{
		MaximumWeight: bytes - bytesOfFirst,
		Weigher: func(_ Answer, t *textAnswers) uint32 {
			return bytesPerText + bytesPerAnswer*uint32(len(t.answers)) + bytesPerContent*uint32(len(t.contents))
		},
	})}
}

// isSecond reports whether a text came before. Otherwise it remembers the text.
func (c *answerCache) isSecond(key Answer) bool {
	slot := &c.first[key[1]%firstTexts]
	return slot.Swap(key[0]) == key[0]
}

// SetAnswerCache sets how many bytes the cache of answers takes at most. It has none if that is very little, which is
// the default.
func (v *Vocabulary) SetAnswerCache(bytes uint64) {
	if bytes < 2*bytesOfFirst {
		bytes = 0
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answerBytes = bytes
	switch known := v.answers.Load(); {
	case known != nil && bytes == 0:
		v.answers.Store(nil)
	case known != nil:
		known.texts.SetMaximum(bytes - bytesOfFirst)
	}
}

// answerCache returns the cache of answers, made on first use; nil if there is none.
func (v *Vocabulary) answerCache() *answerCache {
	if known := v.answers.Load(); known != nil {
		return known
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.answers.Load() == nil && v.answerBytes > 0 {
		v.answers.Store(newAnswerCache(v.answerBytes))
	}
	return v.answers.Load()
}

// origin is what a value follows from, besides the program.
type origin struct {
	// source is the one path of the input; nil if there are none or several, or the value is made of what the clock shows.
	source *derivation
	// several says that there are several sources, or clocks, or that it is made of what the clock shows.
	several bool
	// clock is the one derivation by a function that reads the clock; nil if there is none.
	clock *derivation
}

// originOf returns the origin of what is made of some values.
func originOf(values ...Value) (out origin) {
	for _, v := range values {
		if !v.opaque() {
			continue
		}
		from := v.from.origin
		out.several = out.several || from.several || v.from.raw || differ(out.source, from.source) || differ(out.clock, from.clock)
		if out.source == nil {
			out.source = from.source
		}
		if out.clock == nil {
			out.clock = from.clock
		}
	}
	if out.several {
		return origin{several: true}
	}
	return out
}

func differ(a, b *derivation) bool { return a != nil && b != nil && a != b }

// setOrigin sets the origin of a new derivation by a function.
func (d *derivation) setOrigin() {
	d.origin = originOf(d.operands[:]...)
	if !d.function.Clock {
		return
	}
	if d.function.Until == nil || d.origin.clock != nil || d.origin.several {
		d.origin = origin{several: true}
		return
	}
	d.origin.clock = d
}

// originOfQuestion returns the origin of the answer to a question.
func originOfQuestion(key questionKey) origin {
	if key.kind == askSeal || key.kind == askBound {
		return origin{several: true}
	}
	return originOf(key.a, key.b)
}

// textLookup is the text of one look-up of which answers are cached. The zero value has none yet.
type textLookup struct {
	// source is where the text stands; cache is nil if the answers of this text are not cached.
	source *derivation
	cache  *answerCache
	key    Answer
	// found is what was cached, nil if nothing was; next is the answer that is probably asked next.
	found *textAnswers
	next  int
	// clock, answers and contents are what is cached at the end in addition.
	clock    *derivation
	answers  []Entry
	contents []cachedContent
}

// findText finds what is cached of the text of an origin. It reports false if its answers are not cached. The text of
// a look-up is the first one that is asked for.
func (e *Evaluation) findText(o *origin) bool {
	if o.source == nil || !e.budget.limited || !o.source.costly.Load() {
		return false
	}
	if e.text.source == nil {
		e.text.source = o.source
		e.openText()
	}
	return e.text.source == o.source && e.text.cache != nil
}

// openText looks up the text of the look-up.
func (e *Evaluation) openText() {
	t := &e.text
	content, err := e.look(Value{from: t.source})
	if err != nil || content == nil {
		return
	}
	text, ok := content.Value.(ast.String)
	if !ok || len(text) > maxCachedText {
		return
	}
	cache := e.vocabulary.answerCache()
	if cache == nil {
		return
	}
	t.key = e.hashed(func(b []byte) []byte {
		return append(binary.AppendUvarint(b, uint64(t.source.number)), text...)
	})
	found, ok := cache.texts.GetIfPresent(t.key)
	switch {
	case ok && e.clock.now < found.from: // other requests are later: theirs stay
		return
	case ok && e.clock.now < found.until:
		t.found, t.clock = found, found.clock
	}
	t.cache = cache
}

// cachedAnswer returns the cached answer to a question. Look-ups ask in nearly the same order each time.
func (t *textLookup) cachedAnswer(q *Question) (Answer, bool) {
	if t.found == nil {
		return Answer{}, false
	}
	answers := t.found.answers
	for i := t.next; i < len(answers); i++ {
		if answers[i].Question == q {
			t.next = i + 1
			return answers[i].Answer, true
		}
	}
	for i := range min(t.next, len(answers)) {
		if answers[i].Question == q {
			t.next = i + 1
			return answers[i].Answer, true
		}
	}
	return Answer{}, false
}

// cachedContent returns the cached content of a derivation.
func (t *textLookup) cachedContent(d *derivation) (content, bool) {
	if t.found == nil {
		return content{}, false
	}
	for i := range t.found.contents {
		if c := &t.found.contents[i]; c.derivation == d {
			return c.content, true
		}
	}
	return content{}, false
}

// addAnswer caches an answer at the end.
func (t *textLookup) addAnswer(q *Question, a Answer) {
	if len(t.old().answers)+len(t.answers) < mostAnswersOfText && t.addClock(q.origin.clock) {
		t.answers = append(t.answers, Entry{q, a})
	}
}

// addContent caches a content at the end if it is not of a text.
func (t *textLookup) addContent(d *derivation, c content) {
	if c.err != nil || len(t.old().contents)+len(t.contents) >= mostContentsOfText {
		return
	}
	if c.term != nil && !c.stable {
		number, ok := c.term.Value.(ast.Number)
		if !ok || len(number) > usualDigits {
			return
		}
		// What was decoded may be one block of memory.
		c.term = ast.NumberTerm(json.Number(strings.Clone(string(number))))
	}
	if t.addClock(d.origin.clock) {
		t.contents = append(t.contents, cachedContent{d, c})
	}
}

// addClock reports whether something that rests on a derivation by the clock, or none, can be cached with the rest.
func (t *textLookup) addClock(clock *derivation) bool {
	if differ(t.clock, clock) {
		return false
	}
	if clock != nil {
		t.clock = clock
	}
	return true
}

// nothing is what is cached of a text that is not known.
var nothing = &textAnswers{from: math.MinInt64, until: math.MaxInt64}

func (t *textLookup) old() *textAnswers {
	if t.found == nil {
		return nothing
	}
	return t.found
}

// endText caches what the look-up has learned of its text.
func (e *Evaluation) endText() {
	t := &e.text
	if t.source == nil {
		return
	}
	if len(t.answers)+len(t.contents) > 0 && (t.found != nil || t.cache.isSecond(t.key)) {
		e.storeText()
	}
	clear(t.answers)
	clear(t.contents)
	*t = textLookup{answers: t.answers[:0], contents: t.contents[:0]}
}

func (e *Evaluation) storeText() {
	t := &e.text
	old := t.old()
	stored := &textAnswers{from: old.from, until: old.until, clock: t.clock, answers: concat(old.answers, t.answers), contents: concat(old.contents, t.contents)}
	if t.clock != nil && old.clock == nil {
		stored.from, stored.until = e.clock.now, e.until(t.clock)
	}
	if e.clock.now < stored.until {
		t.cache.texts.Set(t.key, stored)
	}
}

// until returns when a derivation by the clock may have another content than now, in nanoseconds since 1970.
func (e *Evaluation) until(d *derivation) int64 {
	operands := make([]*ast.Term, d.function.Arity)
	for i := range operands {
		term, err := e.look(d.operands[i])
		if err != nil {
			return math.MinInt64
		}
		if term == nil {
			return math.MaxInt64 // it was not called
		}
		operands[i] = term
	}
	builtins := e.Builtins
	builtins.Time = e.clock.time()
	return d.function.Until(builtins, operands)
}

// concat returns a slice that has no more room than it needs.
func concat[T any](a, b []T) []T {
	out := make([]T, 0, len(a)+len(b))
	return append(append(out, a...), b...)
}

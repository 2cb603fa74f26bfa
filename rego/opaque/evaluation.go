package opaque

import (
	"encoding/json"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// mostAsked is how many questions one evaluation asks. What would be a further one is answered by
// the whole of what it is about.
const mostAsked = 64

// mostEntries is the length of the longest record that is of use.
const mostEntries = 1024

// Evaluation is one evaluation of a request, or one look-up for it. It is used by one
// goroutine.
type Evaluation struct {
	// Builtins is what functions are called with. It has no clock.
	Builtins topdown.BuiltinContext
	// now is the request's own time, in nanoseconds since 1970, and nowTerm the same as a term, if it was made.
	now        int64
	nowTerm    *ast.Term
	vocabulary *Vocabulary
	source     Source
	// contents :: number of a derivation → what is known of it; touched are those of which something is.
	contents []content
	touched  []int
	// answers :: number of a question → the answer, if it was asked.
	answers []answered
	asked   []int
	// recording says that what is learned is written down.
	recording bool
	record    Record
	// at is the place that asks; nil if it is not known.
	at     *Place
	buffer []byte
	// lookUp says that it is a look-up, and spent is what its calls have cost.
	lookUp bool
	spent  int
	// uses counts what may be another one in another request: each look at a value that is no constant,
	// and at the clock.
	uses int
	// timed says that it has looked at the clock.
	timed bool
	// terms, result and results are those of the call under way, and collect takes a result.
	terms   [mostOperands]*ast.Term
	result  *ast.Term
	results int
	collect func(*ast.Term) error
}

// answered is the answer to a question.
type answered struct {
	known  bool
	answer Answer
	truth  Truth
	// alike says that truth is right for all texts of a test, and else the matches are.
	alike bool
	// matches are the texts that fulfil the test, if it was asked for all at once.
	matches matches
}

// Record is what an evaluation has learned of its request.
type Record struct {
	Entries []Entry
	// Places are those that asked: one for each of Entries, nil where it is not known.
	Places []*Place
	// Once says that it is of no use for another request: it has what the clock shows, or all of the
	// input.
	Once bool
	// OnceAt is the first place for which it is; nil if that is not known, or if the evaluation ended with an
	// error.
	OnceAt *Place
}

// Place is a line of a policy.
type Place struct {
	// File is the module, and Row the line in it, from 1.
	File string
	Row  int
}

// Entry is one question with its answer.
type Entry struct {
	Question *Question
	Answer   Answer
}

// Begin returns an evaluation of a request. Recording says that what is learned is written down. It
// ends with End.
func (v *Vocabulary) Begin(source Source, builtins topdown.BuiltinContext, now int64, recording bool) *Evaluation {
	e, _ := v.pool.Get().(*Evaluation)
	if e == nil {
		e = &Evaluation{vocabulary: v}
		e.collect = func(t *ast.Term) error {
			e.result = t
			e.results++
			return nil
		}
	}
	e.source, e.Builtins, e.now, e.recording = source, builtins, now, recording
	v.mu.RLock()
	derivations, questions := v.count, len(v.questions)
	v.mu.RUnlock()
	e.grow(derivations, questions)
	return e
}

// grow makes room for derivations and questions.
func (e *Evaluation) grow(derivations, questions int) {
	if n := derivations - len(e.contents); n > 0 {
		e.contents = append(e.contents, make([]content, n)...)
	}
	if n := questions - len(e.answers); n > 0 {
		e.answers = append(e.answers, make([]answered, n)...)
	}
}

// End ends the evaluation. Nothing of its request is kept.
func (e *Evaluation) End() {
	for _, i := range e.touched {
		e.contents[i] = content{}
	}
	for _, i := range e.asked {
		e.answers[i] = answered{}
	}
	clear(e.record.Entries)
	clear(e.buffer[:cap(e.buffer)])
	e.touched, e.asked, e.buffer = e.touched[:0], e.asked[:0], e.buffer[:0]
	e.record, e.uses, e.timed, e.lookUp, e.spent = Record{Entries: e.record.Entries[:0], Places: e.record.Places[:0]}, 0, false, false, 0
	e.source, e.Builtins, e.nowTerm, e.at = nil, topdown.BuiltinContext{}, nil, nil
	if cap(e.buffer) <= 64<<10 {
		e.vocabulary.pool.Put(e)
	}
}

// clock returns the request's own time.
func (e *Evaluation) clock() *ast.Term {
	if e.nowTerm == nil {
		e.nowTerm = ast.NumberTerm(json.Number(strconv.FormatInt(e.now, 10)))
	}
	return e.nowTerm
}

// Uses counts what the evaluation has looked at that another request may have otherwise. What was
// evaluated while it did not change depends on the program alone.
func (e *Evaluation) Uses() int { return e.uses }

// Timed reports whether it has looked at the clock.
func (e *Evaluation) Timed() bool { return e.timed }

// Use notes a look at something of which this package does not know.
func (e *Evaluation) Use() { e.uses++ }

// Made returns a value that was made of some values and nothing else.
func (e *Evaluation) Made(t *ast.Term, of []Value) Value {
	for _, v := range of {
		if !v.IsConstant() {
			return Computed(t)
		}
	}
	return e.vocabulary.constantOf(e, t)
}

// LookUp says that it is a look-up, which takes little time or none.
func (e *Evaluation) LookUp() { e.lookUp = true }

// Abandon says that the record is of no use for another request.
func (e *Evaluation) Abandon() {
	if !e.record.Once {
		e.record.Once, e.record.OnceAt = true, e.at
	}
}

// At says which place asks from here on: it is written down with each question.
func (e *Evaluation) At(p *Place) *Evaluation {
	e.at = p
	return e
}

// Record returns what was learned. It is right until End.
func (e *Evaluation) Record() Record { return e.record }

// Input returns what stands at a path of the input. What is sealed there is not opaque: all of which
// it is made is in the record.
func (e *Evaluation) Input(path Value) (Value, error) {
	e.uses++
	d := path.from
	if len(d.path.Keys) == 0 || !e.source.Sealed(d.path) {
		return path, nil
	}
	c := e.content(d)
	if c.err != nil {
		return Value{}, c.err
	}
	return Computed(c.term), e.seal(d)
}

// seal writes down all of which the value at a sealed path is made.
func (e *Evaluation) seal(d *derivation) error {
	q := e.vocabulary.question(questionKey{kind: askSeal, a: Value{from: d}})
	if q == nil {
		e.Abandon()
		return nil
	}
	_, err := e.ask(q)
	return err
}

// Derive returns what a function makes of some values. It is opaque if one of them is.
func (e *Evaluation) Derive(f *Function, operands ...Value) (Value, error) {
	if f.Clock {
		e.uses++
		e.timed = true
	}
	v, ok, err := e.derived(f, operands)
	if ok || err != nil {
		return v, err
	}
	var terms [mostOperands]*ast.Term
	for i, o := range operands {
		term, err := e.Force(o)
		if term == nil || err != nil {
			return Value{}, err
		}
		terms[i] = term
	}
	e.terms = terms
	if f.Clock {
		e.Abandon() // nobody can ask for the result at another time
	}
	out, err := e.call(f)
	if err != nil {
		return Value{}, err
	}
	if f.Part && operands[0].IsConstant() {
		if _, isSet := terms[0].Value.(ast.Set); !isSet {
			return Constant(out), nil
		}
	}
	if out == nil || f.Clock || f.Part {
		return Computed(out), nil
	}
	return e.Made(out, operands), nil
}

// derived returns an opaque value. It reports false if it is none: all operands are known, or one
// may not be kept, or there is no room.
func (e *Evaluation) derived(f *Function, operands []Value) (Value, bool, error) {
	key, opaque := derivationKey{function: f}, f.Clock
	for i, o := range operands {
		known := e.Settled(o)
		if known.IsNone() {
			return Value{}, true, nil
		}
		if !known.keepable() {
			return Value{}, false, nil
		}
		opaque = opaque || known.opaque()
		key.operands[i] = known
	}
	if !opaque {
		return Value{}, false, nil
	}
	d := e.vocabulary.deriveOrPath(key)
	if d == nil {
		return Value{}, false, nil
	}
	e.grow(d.number+1, 0)
	if d.path == nil {
		return Value{from: d}, true, nil
	}
	v, err := e.Input(Value{from: d})
	return v, true, err
}

// Settled returns the value with its content if that is in the record already.
func (e *Evaluation) Settled(v Value) Value {
	if !v.opaque() {
		return v
	}
	e.grow(v.from.number+1, 0)
	if c := &e.contents[v.from.number]; c.forced {
		if c.stable {
			return Constant(c.term)
		}
		return Computed(c.term)
	}
	return v
}

package opaque

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// Evaluation is one evaluation of a request, or one look-up for it. It is used by one
// goroutine.
type Evaluation struct {
	// Builtins is what functions are called with. It has no clock.
	Builtins   topdown.BuiltinContext
	vocabulary *Vocabulary
	source     Source
	// contents :: number of a derivation → what is known of it; touched are those of which something is.
	contents []content
	touched  []int
	// answers :: number of a question → the answer, if it was asked.
	answers  []answered
	asked    []int
	recorder recorder
	buffer   []byte
	budget   budget
	// uses counts what may be another one in another request: each look at a value that is no constant,
	// and at the clock.
	uses       int
	clock      clock
	invocation invocation
	// usuals are the collections of which Usual was asked; nil until it is.
	usuals usuals
	text   textLookup
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

// Begin returns an evaluation of a request. Recording says that what is learned is written down. It
// ends with End.
func (v *Vocabulary) Begin(source Source, builtins topdown.BuiltinContext, now int64, recording bool) *Evaluation {
	e, _ := v.pool.Get().(*Evaluation)
	if e == nil {
		e = &Evaluation{vocabulary: v}
		e.invocation.collect = e.invocation.take
	}
	e.source, e.Builtins, e.clock.now, e.recorder.on = source, builtins, now, recording
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
	e.endText()
	for _, i := range e.touched {
		e.contents[i] = content{}
	}
	for _, i := range e.asked {
		e.answers[i] = answered{}
	}
	e.recorder.end()
	clear(e.buffer[:cap(e.buffer)])
	e.touched, e.asked, e.buffer = e.touched[:0], e.asked[:0], e.buffer[:0]
	e.uses, e.clock, e.budget = 0, clock{}, budget{}
	e.source, e.Builtins, e.usuals = nil, topdown.BuiltinContext{}, nil
	if cap(e.buffer) <= 64<<10 {
		e.vocabulary.pool.Put(e)
	}
}

// Uses counts what the evaluation has looked at that another request may have otherwise. What was
// evaluated while it did not change depends on the program alone.
func (e *Evaluation) Uses() int { return e.uses }

// Timed reports whether it has looked at the clock.
func (e *Evaluation) Timed() bool { return e.clock.used }

// Use notes a look at something of which this package does not know.
func (e *Evaluation) Use() { e.uses++ }

// Made returns a value that was made of some values and nothing else.
func (e *Evaluation) Made(t *ast.Term, of []Value) Value {
	if slices.ContainsFunc(of, Value.hasOrder) && isCollection(t) {
		return Value{t, unordered}
	}
	for _, v := range of {
		if !v.IsConstant() {
			return Computed(t)
		}
	}
	return e.vocabulary.constantOf(e, t)
}

// LookUp says that it is a look-up, which takes little time or none.
func (e *Evaluation) LookUp() { e.budget.limited = true }

// Abandon says that the record is of no use for another request.
func (e *Evaluation) Abandon() { e.recorder.abandon() }

// At says which place asks from here on: it is written down with each question.
func (e *Evaluation) At(p *Position) *Evaluation {
	e.recorder.at = p
	return e
}

// Record returns what was learned. It is right until End.
func (e *Evaluation) Record() Record { return e.recorder.record }

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
		e.clock.used = true
	}
	v, ok, err := e.derived(f, operands)
	if ok || err != nil {
		return v, err
	}
	terms, ok, err := e.forceAll(operands)
	if !ok || err != nil {
		return Value{}, err
	}
	e.invocation.terms = terms
	if f.Clock {
		e.Abandon() // nobody can ask for the result at another time
	}
	out, err := e.call(f)
	if err != nil {
		return Value{}, err
	}
	return e.resultOf(f, operands, terms[0], out), nil
}

// resultOf returns the value of what a function has given for operands, of which the first one has a content.
func (e *Evaluation) resultOf(f *Function, operands []Value, first, out *ast.Term) Value {
	if f.Part && operands[0].IsConstant() {
		if _, isSet := first.Value.(ast.Set); !isSet {
			return Constant(out)
		}
	}
	if f.Part {
		return operands[0].Part(out)
	}
	if out == nil || f.Clock {
		return Computed(out)
	}
	return e.Made(out, operands)
}

// forceAll returns the contents of the operands of a function. It reports false if one of them has no value;
// those behind it are not forced.
func (e *Evaluation) forceAll(operands []Value) (terms [MostOperands]*ast.Term, ok bool, err error) {
	for i, o := range operands {
		term, err := e.Force(o)
		if term == nil || err != nil {
			return terms, false, err
		}
		terms[i] = term
	}
	return terms, true, nil
}

// derived returns an opaque value. It reports false if it is none: all operands are known, or one
// may not be kept, or there is no room.
func (e *Evaluation) derived(f *Function, operands []Value) (Value, bool, error) {
	key, opaque := derivationKey{function: f}, f.Clock
	for i, o := range operands {
		known := e.Known(o)
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
	if f == GetKey && key.operands[0].isComposite() {
		if part, known := key.operands[0].part(key.operands[1]); known {
			return part, true, nil
		}
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

// Known returns the value with its content if that is in the record already.
func (e *Evaluation) Known(v Value) Value {
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

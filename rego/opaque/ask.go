package opaque

import "github.com/open-policy-agent/opa/v1/ast"

// Force returns the content of a value, which is not opaque from here on; nil if there is no value.
func (e *Evaluation) Force(v Value) (*ast.Term, error) {
	e.use(v)
	v = e.Known(v)
	if !v.opaque() {
		return v.term, nil
	}
	if v.isComposite() {
		return e.forceComposite(v)
	}
	c := e.content(v.from)
	if c.err != nil {
		return nil, c.err
	}
	if !e.recorder.on {
		c.forced = true
		return c.term, nil
	}
	if v.isRoot() || v.from.raw {
		e.Abandon()
	} else if q := e.vocabulary.question(questionKey{kind: askContent, a: v}); q == nil {
		e.Abandon()
	} else if _, err := e.ask(q); err != nil {
		return nil, err
	}
	e.contents[v.from.number].forced = true
	return c.term, nil
}

// Ask asks for the outcome of a test of two values. It is Open if the operands have to be forced.
func (e *Evaluation) Ask(test *Test, a, b Value) (Truth, error) {
	if test == NotEqual {
		truth, err := e.Ask(Equal, a, b)
		return not(truth), err
	}
	e.use(a)
	e.use(b)
	a, b = e.Known(a), e.Known(b)
	switch {
	case a.IsNone() || b.IsNone():
		return test.absent, nil
	case !a.opaque() && !b.opaque():
		return test.of(a.term, b.term), nil
	case !e.recorder.on:
		return e.peek(test, a, b)
	}
	return e.askBoth(test, a, b)
}

// askBoth is Ask where what is learned of the values is written down.
func (e *Evaluation) askBoth(test *Test, a, b Value) (Truth, error) {
	if truth, ok, err := e.askBound(test, a, b); ok || err != nil {
		return truth, err
	}
	if !a.askable() || !b.askable() || e.recorder.full() {
		return e.forceBoth(test, a, b)
	}
	if truth, ok, err := e.askTexts(test, a, b); ok || err != nil {
		return truth, err
	}
	return e.askTest(test, a, b)
}

// Test asks for the outcome of a test of one value.
func (e *Evaluation) Test(test *Test, a Value) (Truth, error) {
	e.use(a)
	a = e.Known(a)
	switch {
	case a.IsNone():
		return test.absent, nil
	case !a.opaque():
		return e.testKnown(test, a), nil
	case a.isComposite():
		return e.testComposite(test, a)
	case a.isRoot() && test != Usual:
		return e.testInput(test), nil
	case !e.recorder.on:
		return e.peek(test, a, Value{})
	case a.isRoot() || e.recorder.full():
		return e.forceBoth(test, a, Value{})
	case a.isClock(test == Usual):
		return Yes, nil
	}
	return e.askTest(test, a, Value{})
}

// testKnown tests a known value.
func (e *Evaluation) testKnown(test *Test, a Value) Truth {
	if test == Usual && a.IsConstant() {
		return e.vocabulary.usual(a.term)
	}
	return e.run(test, a.term, nil, true)
}

// testInput tests the whole input. Each request of a program has one, so nothing is learned, or what is learned is
// of no use for a request.
func (e *Evaluation) testInput(test *Test) Truth {
	if e.source.Exists() {
		return Yes
	}
	e.Abandon()
	return test.absent
}

// use counts a look at a value.
func (e *Evaluation) use(v Value) {
	if v.from != nil {
		e.uses++
	}
}

func not(t Truth) Truth {
	switch t {
	case Yes:
		return No
	case No:
		return Yes
	}
	return t
}

// peek runs a test where nothing is written down.
func (e *Evaluation) peek(test *Test, a, b Value) (Truth, error) { return e.runOn(test, e.look, a, b) }

// forceBoth runs a test on what is learned as a whole.
func (e *Evaluation) forceBoth(test *Test, a, b Value) (Truth, error) {
	return e.runOn(test, e.Force, a, b)
}

// runOn runs a test on the contents of values.
func (e *Evaluation) runOn(test *Test, content func(Value) (*ast.Term, error), a, b Value) (Truth, error) {
	x, err := content(a)
	if err != nil {
		return Undefined, err
	}
	y, err := content(b)
	if err != nil {
		return Undefined, err
	}
	return e.run(test, x, y, b.IsNone()), nil
}

// askTexts asks a test for all of its texts, of which one operand is one. It reports false if neither is, or if the
// test does not say it of all at once.
func (e *Evaluation) askTexts(test *Test, a, b Value) (Truth, bool, error) {
	value, constant := a, b
	if test.swapped || test == Equal && a.IsConstant() {
		value, constant = b, a
	}
	if !value.opaque() || !constant.IsConstant() {
		return Undefined, false, nil
	}
	place, ok := e.vocabulary.Place(test, constant.term)
	if !ok {
		return Undefined, false, nil
	}
	q := e.vocabulary.question(questionKey{kind: askTexts, test: test, a: value})
	if q == nil {
		return Undefined, false, nil
	}
	found, err := e.ask(q)
	switch {
	case err != nil:
		return Undefined, false, err
	case found.alike && found.truth == Open:
		return Undefined, false, nil
	case found.alike:
		return found.truth, true, nil
	}
	return truthOf(found.matches.has(place)), true, nil
}

// Matches returns the places of the texts with which a test of a value holds: of all that the program compares by it,
// ascending. It reports false if the test does not say that of the value, or if it would have to be forced.
func (e *Evaluation) Matches(test *Test, a Value) ([]uint32, bool, error) {
	e.use(a)
	a = e.Known(a)
	if a.opaque() && (!a.askable() || a.isComposite() || e.isSealed(a) || e.recorder.full()) {
		return nil, false, nil
	}
	if a.opaque() && e.recorder.on {
		q := e.vocabulary.question(questionKey{kind: askTexts, test: test, a: a})
		if q == nil {
			return nil, false, nil
		}
		found, err := e.ask(q)
		return found.matches, found.answer != otherAnswer, err
	}
	content, err := e.look(a)
	if content == nil || err != nil {
		return nil, true, err
	}
	places, ok := test.texts(e.vocabulary.texts[test], content)
	return places, ok, nil
}

// Missing reports whether there is no value for sure. It reports false if the value would have to be forced.
func (e *Evaluation) Missing(a Value) (bool, error) {
	if a.opaque() && (e.isSealed(a) || e.recorder.full()) {
		return false, nil
	}
	truth, err := e.Test(Present, a)
	return truth == No, err
}

// isSealed reports whether what stands at the path of a value is sealed.
func (e *Evaluation) isSealed(v Value) bool {
	return v.from.path != nil && e.source.Sealed(v.from.path)
}

// askBound asks for the outcome of a test of what the clock shows, or what follows from that, and a number that the
// evaluation has computed. The number follows from the answers before, and the answer is for each request at its
// own time. It reports false for any other test.
func (e *Evaluation) askBound(test *Test, a, b Value) (Truth, bool, error) {
	key, bound := questionKey{kind: askBound, test: test, a: a, turn: e.clock.bounds}, b
	if b.opaque() {
		key.a, key.b, bound = Value{}, b, a
	}
	if !bound.isBound() || !a.isRaw() && !b.isRaw() || e.recorder.full() {
		return Undefined, false, nil
	}
	common := e.vocabulary.question(key)
	if common == nil {
		return Undefined, false, nil
	}
	e.clock.bounds++
	found, err := e.ask(&Question{questionKey: key, number: common.number, bound: bound.term, common: common})
	return found.truth, true, err
}

// isBound reports whether the value is a number that was computed, in the usual form.
func (v Value) isBound() bool {
	if v.from != computed {
		return false
	}
	number, ok := v.term.Value.(ast.Number)
	return ok && usualNumber(string(number))
}

// askTest asks for the outcome of a test.
func (e *Evaluation) askTest(test *Test, a, b Value) (Truth, error) {
	q := e.vocabulary.question(questionKey{kind: askTest, test: test, a: a, b: b})
	if q == nil {
		return e.forceBoth(test, a, b)
	}
	found, err := e.ask(q)
	return found.truth, err
}

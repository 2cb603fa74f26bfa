package evaluator

import (
	"errors"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego/opaque"
)

// ErrUndecided is the error of an evaluation that came to an end in which OPA may have an
// error of its own: a conflict, or a call beyond its bound. OPA has to be asked.
var ErrUndecided = errors.New("the evaluation ended with an error")

// ErrCancelled is the error of an evaluation that was cancelled.
var ErrCancelled = errors.New("the evaluation was cancelled")

// signal is what a step tells its caller.
type signal uint8

const (
	// more: there may be further solutions.
	more signal = iota
	// stop: no further solution is needed.
	stop
	// fail: the evaluation ends. The reason is in the machine.
	fail
)

// step is an expression of a body together with all that follow.
type step func(f *frame) signal

// expr is a term with one value. If the machine has an error after it, the evaluation ends.
type expr func(f *frame) opaque.Value

// machine is one evaluation. It is used by one goroutine.
type machine struct {
	// asks is by what values of the request are derived, forced and asked about.
	asks   *opaque.Evaluation
	cancel topdown.Cancel
	err    error
	steps  uint
	// documents :: ID of a rule → what its value is, as far as it is known.
	documents []memo
	// frames :: ID of a layout → its frame, nil if it was not needed yet.
	frames []*frame
	// indexes :: number of a comprehension → its index, nil if it is not made yet.
	indexes []*index
	// outputs are those of the call under way.
	outputs []*ast.Term
	collect func(*ast.Term) error
}

// memo is what is known of the value of one rule.
type memo struct {
	known bool
	value opaque.Value
	// by are values by arguments, or by keys.
	by results
}

// reset forgets all that is known.
func (d *memo) reset() {
	d.known, d.value, d.by.unusual = false, opaque.Value{}, false
	d.by.reset()
}

// frame has the variables of one body, and of all closures in it.
type frame struct {
	m    *machine
	vars []opaque.Value
	// positions :: slot of a variable → which element of a constant array it has.
	positions []int
	// collected :: number of a closure → what it has collected.
	collected []collection
	// held :: number of a closure → whether it holds.
	held []bool
	// partial is what the body's rule adds to, if it is one of several values.
	partial *partialValue
	// result is the value of the body's rule so far.
	result opaque.Value
}

// none is the signal of a step whose expression has no value.
func (f *frame) none() signal {
	if f.m.err != nil {
		return fail
	}
	return more
}

// giveUp ends the evaluation. The first error counts.
func (m *machine) giveUp(err error) signal {
	if m.err == nil {
		m.err = err
	}
	return fail
}

// goesOn reports whether the evaluation goes on after a body has ended. If it does not, the machine has
// an error from here on: what has no value is undefined otherwise.
func (m *machine) goesOn(got signal) bool {
	if got == fail {
		m.giveUp(ErrUndecided)
	}
	return got != fail
}

// ended notes the error of an evaluation's question, if there is one, and reports whether there is.
func (m *machine) ended(err error) bool {
	switch {
	case err == nil:
	case errors.Is(err, opaque.ErrSeveral):
		m.giveUp(ErrUndecided)
	default:
		m.giveUp(err)
	}
	return err != nil
}

// force returns the content of a value, nil if there is none or the evaluation has ended.
func (m *machine) force(at *site, v opaque.Value) *ast.Term {
	t, err := m.asks.At(&at.Position).Force(v)
	if m.ended(err) {
		return nil
	}
	return t
}

// test asks for the outcome of a test of one value, which is yes or no.
func (m *machine) test(at *site, test *opaque.Test, v opaque.Value) bool {
	truth, err := m.asks.At(&at.Position).Test(test, v)
	return !m.ended(err) && truth == opaque.Yes
}

// ask asks for the outcome of a test of two values.
func (m *machine) ask(at *site, test *opaque.Test, a, b opaque.Value) opaque.Truth {
	truth, err := m.asks.At(&at.Position).Ask(test, a, b)
	if m.ended(err) {
		return opaque.Undefined
	}
	return truth
}

// matches returns the places of the texts with which a test of a value holds. It reports false if that is not known
// without forcing the value.
func (m *machine) matches(at *site, test *opaque.Test, v opaque.Value) ([]uint32, bool) {
	places, ok, err := m.asks.At(&at.Position).Matches(test, v)
	return places, ok && !m.ended(err)
}

// missing reports whether there is no value for sure.
func (m *machine) missing(at *site, v opaque.Value) bool {
	missing, err := m.asks.At(&at.Position).Missing(v)
	return missing && !m.ended(err)
}

// present reports whether there is a value.
func (m *machine) present(at *site, v opaque.Value) bool { return m.test(at, opaque.Present, v) }

// keys returns the keys of an array or object that stays opaque; it reports false for any other value, and if the
// evaluation has ended.
func (m *machine) keys(at *site, v opaque.Value) ([]opaque.Value, bool) {
	keys, ok, err := m.asks.At(&at.Position).Keys(v)
	return keys, ok && !m.ended(err)
}

// input returns what stands at a path of the input.
func (m *machine) input(at *site, path opaque.Value) opaque.Value {
	v, err := m.asks.At(&at.Position).Input(path)
	m.ended(err)
	return v
}

// derive returns what a function makes of some values.
func (m *machine) derive(at *site, f *opaque.Function, operands ...opaque.Value) opaque.Value {
	v, err := m.asks.At(&at.Position).Derive(f, operands...)
	m.ended(err)
	return v
}

// stepsPerCheck is how many steps there are between two checks for cancellation.
const stepsPerCheck = 16

// interrupted counts a step, and reports whether the evaluation has ended.
func (m *machine) interrupted() bool {
	m.steps++
	if m.steps%stepsPerCheck == 0 && m.cancel != nil && m.cancel.Cancelled() {
		m.giveUp(ErrCancelled)
	}
	return m.err != nil
}

// layout is how large the frames of a body are. A machine has one frame for each: rules are
// not recursive, so no body is evaluated within itself.
type layout struct {
	id, vars, closures int
}

// enter returns an empty frame. It goes back with leave.
func (l *layout) enter(m *machine) *frame {
	f := m.frames[l.id]
	if f == nil {
		f = &frame{
			m: m, vars: make([]opaque.Value, l.vars), positions: make([]int, l.vars),
			collected: make([]collection, l.closures), held: make([]bool, l.closures),
		}
		m.frames[l.id] = f
	}
	return f
}

// leave empties a frame, so that it keeps nothing of a request.
func (l *layout) leave(f *frame) {
	clear(f.vars)
	clear(f.collected)
	f.result, f.partial = opaque.Value{}, nil
}

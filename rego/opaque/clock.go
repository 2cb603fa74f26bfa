package opaque

import (
	"encoding/json"
	"math/bits"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
)

// clock is the clock of an evaluation.
type clock struct {
	// now is the request's own time, in nanoseconds since 1970, and term the same as a term, if it was made.
	now  int64
	term *ast.Term
	// used says that the evaluation has looked at it.
	used bool
	// bounds is how often a number that was computed was compared with it.
	bounds int
}

// time returns the request's own time.
func (c *clock) time() *ast.Term {
	if c.term == nil {
		c.term = ast.NumberTerm(json.Number(strconv.FormatInt(c.now, 10)))
	}
	return c.term
}

// A token's time is compared with the clock by nearly every policy about tokens, in seconds:
//
//	claims.exp > time.now_ns() / 1000000000
//
// OPA divides and compares with floating point numbers of any size, which takes as long as all other questions
// of a look-up. With integers that are not within a millionth of each other the outcome is known without that.

// clockTest answers the comparison of an integer with the clock, or with the clock divided by an integer.
// It reports false if the question is another one, or the outcome is near.
func (e *Evaluation) clockTest(q *Question) (Truth, bool) {
	less, ok := clockOrders[q.test]
	if !ok {
		return Undefined, false
	}
	value, divisor, swapped, ok := q.otherThanClock()
	if !ok {
		return Undefined, false
	}
	content, err := e.look(value)
	if err != nil || content == nil {
		return Undefined, false
	}
	n, ok := integer(content)
	if !ok || n < 0 || e.clock.now < 0 {
		return Undefined, false
	}
	// value < now / divisor, and not the other way round, if value × divisor < now.
	high, product := bits.Mul64(uint64(n), uint64(divisor))
	now := uint64(e.clock.now)
	if high == 0 && max(product, now)-min(product, now) <= now>>20 {
		return Undefined, false
	}
	below := high == 0 && product < now
	return truthOf(below != swapped == less), true
}

// otherThanClock returns the value that is compared with the clock, and by what that is divided. Swapped says that
// the clock is the first one. It reports false if neither is the clock.
func (q *Question) otherThanClock() (value Value, divisor int64, swapped, ok bool) {
	if q.kind != askTest && q.kind != askBound {
		return value, 0, false, false
	}
	a, b := q.operands()
	if divisor, ok = b.clockDivisor(); ok {
		return a, divisor, false, true
	}
	divisor, ok = a.clockDivisor()
	return b, divisor, true, ok
}

// clockOrders :: test of an order → whether it holds if the first value is the smaller one.
var clockOrders = map[*Test]bool{LessThan: true, LessThanEq: true, GreaterThan: false, GreaterThanEq: false}

// clockDivisor returns by what the clock is divided to give a value; it reports false if it is another value.
func (v Value) clockDivisor() (int64, bool) {
	switch {
	case !v.opaque() || v.from.function == nil:
		return 0, false
	case v.from.function.Clock && v.from.function.Arity == 0:
		return 1, true
	case v.from.function.Name != ast.Divide.Name:
		return 0, false
	}
	if divisor, isClock := v.from.operands[0].clockDivisor(); !isClock || divisor != 1 {
		return 0, false
	}
	by := v.from.operands[1]
	if !by.IsConstant() {
		return 0, false
	}
	n, ok := integer(by.term)
	return n, ok && n > 0
}

// isClock reports whether the value is what the clock shows, divided or, if exact, not.
func (v Value) isClock(exact bool) bool {
	divisor, ok := v.clockDivisor()
	return ok && (!exact || divisor == 1)
}

// integer returns a number that is written as an integer of at most 18 digits.
func integer(t *ast.Term) (int64, bool) {
	number, ok := t.Value.(ast.Number)
	if !ok || len(number) > 18 {
		return 0, false
	}
	return number.Int64()
}

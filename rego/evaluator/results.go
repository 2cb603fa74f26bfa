package evaluator

import "understudy/rego/opaque"

// results are what the bodies of a function, or of a rule with keys, were worth in an evaluation, by their
// arguments. OPA takes what a function was worth for 1 if it is called with 1.0, which it may tell apart: see
// [function.apart], and usual for keys. An argument that has one value in an evaluation needs no such question.
type results struct {
	table[result]
	// unusual says that some arguments have numbers in an unusual form.
	unusual bool
}

// result is one value, and whether another request may have another one.
type result struct {
	value opaque.Value
	used  bool
}

// known returns what is known for some arguments, and whether anything is.
func (r *results) known(m *machine, args []opaque.Value) (opaque.Value, bool) {
	known, ok := r.find(args)
	if known.used {
		m.asks.Use()
	}
	return known.value, ok
}

// store stores the value for some arguments, and keeps these. Uses is how often the evaluation had looked at the request
// before it worked the value out.
func (r *results) store(m *machine, args []opaque.Value, value opaque.Value, uses int) {
	r.add(args, result{value, m.asks.Uses() != uses})
}

// usual reports whether all numbers in a value are in their usual form, and else ends the evaluation.
func (m *machine) usual(at *site, v opaque.Value) bool {
	if !m.test(at, opaque.Usual, v) {
		m.giveUp(ErrUndecided)
		return false
	}
	return true
}

package evaluator

import "understudy/rego/opaque"

// results are what the bodies of a function, or of a rule with keys, were worth in an evaluation, by their
// arguments. OPA takes what a function was worth for 1 if it is called with 1.0, which it may tell apart: see
// [function.apart], and usual for keys. An argument that has one value in an evaluation needs no such question.
type results struct {
	table[result]
	// calls are the arguments of the table, in their order, and unusual says that some have numbers in an unusual form.
	calls   [][]opaque.Value
	unusual bool
}

// result is one value, and whether another request may have another one.
type result struct {
	value opaque.Value
	used  bool
}

// evaluated returns the value for some arguments, which is worked out once in an evaluation. It keeps the
// arguments. The second result is false if the evaluation has ended.
func (r *results) evaluated(m *machine, args []opaque.Value, evaluate func() (opaque.Value, bool)) (opaque.Value, bool) {
	if known, ok := r.find(args); ok {
		if known.used {
			m.asks.Use()
		}
		return known.value, true
	}
	uses := m.asks.Uses()
	value, ok := evaluate()
	if !ok || m.err != nil {
		return opaque.Value{}, false
	}
	r.add(args, result{value, m.asks.Uses() != uses})
	r.calls = append(r.calls, args)
	return value, true
}

// usual reports whether all numbers in a value are in their usual form, and else ends the evaluation.
func (m *machine) usual(at *site, v opaque.Value) bool {
	if !m.test(at, opaque.Usual, v) {
		m.giveUp(ErrUndecided)
		return false
	}
	return true
}

package evaluator

import "understudy/rego/opaque"

// results are what the bodies of a function, or of a rule with keys, were worth in an evaluation, by their
// arguments. OPA takes what a function was worth for 1 if it is called with 1.0, which it may tell apart.
// So where numbers are written in an unusual way OPA has to be asked, whatever it was called with before:
// what was called before may be different in another evaluation, since constants are worked out once for
// all.
type results struct {
	table[result]
}

// result is one value, and whether another request may have another one.
type result struct {
	value opaque.Value
	used  bool
}

// evaluated returns the value for some arguments, which is worked out once in an evaluation. It keeps the
// arguments. The second result is false if the evaluation has ended.
func (r *results) evaluated(m *machine, at *site, args []opaque.Value, evaluate func() (opaque.Value, bool)) (opaque.Value, bool) {
	if !m.usual(at, args) {
		return opaque.Value{}, false
	}
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
	return value, true
}

// usual reports whether all numbers in some values are in their usual form, and else ends the evaluation.
func (m *machine) usual(at *site, values []opaque.Value) bool {
	for _, v := range values {
		if !m.test(at, opaque.Usual, v) {
			m.giveUp(ErrUndecided)
			return false
		}
	}
	return true
}

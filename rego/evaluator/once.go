package evaluator

import (
	"sync/atomic"

	"understudy/rego/opaque"
)

// once is the value of a rule without arguments: it is worked out once in an evaluation, and once for all
// if it depends on the program alone, as far as an evaluation has found out.
type once struct {
	constant atomic.Pointer[opaque.Value]
}

// value returns the value of the rule with an ID. It is none if evaluate reports that the evaluation has ended.
func (o *once) value(m *machine, id int, evaluate func() (opaque.Value, bool)) opaque.Value {
	if constant := o.constant.Load(); constant != nil {
		return *constant
	}
	known := &m.documents[id]
	if known.known {
		m.asks.Use()
		return known.value
	}
	uses := m.asks.Uses()
	value, ok := evaluate()
	if !ok {
		return opaque.Value{}
	}
	if !m.isConstant(uses, value) {
		known.known, known.value = true, value
		return value
	}
	constant := value.AsConstant()
	o.constant.CompareAndSwap(nil, &constant) // all evaluations get the one that was kept first
	return *o.constant.Load()
}

// isConstant reports whether a value depends on the program alone. One with numbers in an unusual form may
// depend on which equal arguments came first.
func (m *machine) isConstant(uses int, value opaque.Value) bool {
	if m.err != nil || m.asks.Uses() != uses {
		return false
	}
	if !value.IsNone() && !m.test(nowhere, opaque.Usual, value) {
		m.asks.Use()
		return false
	}
	return true
}

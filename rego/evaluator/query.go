package evaluator

import (
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// Query is what evaluates one path. It is safe for concurrent use.
type Query struct {
	*definition
	layout *layout
	value  expr
	// at is where its content is forced.
	at *site
	*counts
	// pool has machines that have evaluated the path before.
	pool sync.Pool
}

// Compile compiles what a path can reach. It also returns the forms in it that are not known: an evaluation that
// comes to one ends with [ErrUndecided]. The query is nil if each would.
func (c *Compiler) Compile(ref ast.Ref) (*Query, []Cause) {
	def := &definition{}
	var at *ast.Location
	if rules := c.compiler.GetRulesExact(ref); len(rules) > 0 {
		at = rules[0].Location
	}
	s := newScope(c, def, at)
	q := &Query{definition: def, layout: s.layout, counts: c.counts}
	def.compiled(func() {
		s.reference(ref, source{}, func(s scope, e source) step {
			q.value, q.at = e.expr, s.site(Whole, e.from)
			return nil
		})
	})
	if def.unusable != nil {
		q = nil
	}
	return q, def.unknown()
}

// Release lets go of what [Query.Causes] returns, which is then empty. Nobody may use the query meanwhile.
func (q *Query) Release() {
	all := make(map[*definition]bool)
	q.visit(all, func(*definition) {})
	for d := range all {
		for _, p := range d.sites {
			p.notes = nil
		}
		for _, u := range append(d.operands, &d.outcome) {
			u.of = nil
		}
		d.sites, d.needs, d.problems = nil, nil, nil
	}
}

// unknown returns the forms that are not known in what the definition can reach, each once.
func (d *definition) unknown() (out []Cause) {
	d.visit(make(map[*definition]bool), func(d *definition) {
		for _, p := range d.problems {
			if !slices.Contains(out, *p) {
				out = append(out, *p)
			}
		}
	})
	return out
}

// Eval evaluates the path, with what an evaluation has of a request and the clock. The value is nil
// if the path is undefined. The error is [ErrUndecided], [ErrCancelled], or that of the request.
func (q *Query) Eval(asks *opaque.Evaluation) (*ast.Term, error) {
	m := q.machine() // which is not kept after a panic: its frames would not be empty
	m.asks, m.cancel = asks, asks.Builtins.Cancel
	f := q.layout.enter(m)
	value := m.force(q.at, q.value(f))
	q.layout.leave(f)
	err := m.err
	q.release(m)
	if err != nil {
		return nil, err
	}
	return value, nil
}

// machine returns a machine that has evaluated nothing.
func (q *Query) machine() *machine {
	if m, ok := q.pool.Get().(*machine); ok {
		return m
	}
	m := &machine{
		documents: make([]memo, q.documents), indexes: make([]*index, q.indexes), frames: make([]*frame, q.layouts),
	}
	m.collect = func(t *ast.Term) error {
		m.outputs = append(m.outputs, t)
		return nil
	}
	return m
}

// release empties a machine, so that it keeps nothing of a request, and keeps it.
func (q *Query) release(m *machine) {
	for i := range m.documents {
		m.documents[i].reset()
	}
	clear(m.indexes)
	clear(m.outputs[:cap(m.outputs)])
	m.outputs, m.asks, m.cancel, m.err = m.outputs[:0], nil, nil, nil
	q.pool.Put(m)
}

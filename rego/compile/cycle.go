package compile

import "github.com/open-policy-agent/opa/v1/ast"

// codeCycle is the class of the problem that [Cycles] finds.
const codeCycle = "rego_cycle_error"

// Cycles returns the equations that no value solves because a variable would be a part of itself, such as x = {x}. OPA
// may follow such a binding without end, which ends the process: it evaluates a comprehension for its index without
// the values of the variables around it.
func Cycles(modules map[string]*ast.Module) (problems []Problem) {
	for _, m := range modules {
		for _, rule := range m.Rules {
			for r := rule; r != nil; r = r.Else {
				(&equations{}).body(r.Body, &problems)
			}
		}
	}
	return problems
}

// equations are those of a body and of the bodies around it.
type equations struct {
	around *equations
	// same :: variable → another one that it is equal to.
	same map[ast.Var]ast.Var
	// parts :: variable → the variables of which an array, object or set is made that it is equal to.
	parts map[ast.Var][]ast.Var
}

// body checks a body, and all bodies in it.
func (q *equations) body(body ast.Body, problems *[]Problem) {
	inner := &equations{around: q, same: make(map[ast.Var]ast.Var), parts: make(map[ast.Var][]ast.Var)}
	for _, e := range body {
		if !e.IsEquality() {
			continue
		}
		inner.unify(e.Operand(0), e.Operand(1))
		if v, found := inner.cycle(); found {
			p := Problem{Code: codeCycle, Message: "No value of " + string(v) + " fulfils this: it would be a part of itself. Take the expression out."}
			if e.Location != nil {
				p.File, p.Row, p.Column = e.Location.File, e.Location.Row, e.Location.Col
				p.Message = "No value fulfils " + Cut(string(e.Location.Text), MaxMessage/2) + ": it would be a part of itself. Take the expression out."
			}
			*problems = append(*problems, p)
			return
		}
	}
	for _, e := range body {
		ast.WalkBodies(e, func(nested ast.Body) bool {
			inner.body(nested, problems)
			return true
		})
	}
}

// unify adds what it means that two terms are equal.
func (q *equations) unify(a, b *ast.Term) {
	x, isVar := a.Value.(ast.Var)
	y, isVarToo := b.Value.(ast.Var)
	switch {
	case isVar && isVarToo:
		if x, y = q.one(x), q.one(y); x != y {
			q.same[x] = y
			q.parts[y] = append(q.parts[y], q.parts[x]...)
		}
	case isVar:
		q.parts[q.one(x)] = append(q.parts[q.one(x)], variablesIn(b)...)
	case isVarToo:
		q.unify(b, a)
	default:
		eachPart(a, b, q.unify)
	}
}

// one returns the variable that stands for all that are equal to a variable.
func (q *equations) one(v ast.Var) ast.Var {
	for at := q; at != nil; at = at.around {
		if other, ok := at.same[v]; ok {
			return q.one(other)
		}
	}
	return v
}

// cycle returns a variable that would be a part of itself, if there is one.
func (q *equations) cycle() (ast.Var, bool) {
	for v := range q.parts {
		if q.reaches(q.one(v), q.one(v), make(map[ast.Var]bool)) {
			return v, true
		}
	}
	return "", false
}

// reaches reports whether a variable is a part of another one.
func (q *equations) reaches(from, to ast.Var, seen map[ast.Var]bool) bool {
	if seen[from] {
		return false
	}
	seen[from] = true
	for at := q; at != nil; at = at.around {
		for _, part := range at.parts[from] {
			if part = q.one(part); part == to || q.reaches(part, to, seen) {
				return true
			}
		}
	}
	return false
}

// variablesIn returns the variables of which an array, object or set is made. Those in references, calls and
// comprehensions are no parts of it.
func variablesIn(t *ast.Term) (out []ast.Var) {
	add := func(element *ast.Term) {
		if v, ok := element.Value.(ast.Var); ok {
			out = append(out, v)
		} else {
			out = append(out, variablesIn(element)...)
		}
	}
	switch v := t.Value.(type) {
	case *ast.Array:
		v.Foreach(add)
	case ast.Set:
		v.Foreach(add)
	case ast.Object:
		v.Foreach(func(key, value *ast.Term) {
			add(key)
			add(value)
		})
	}
	return out
}

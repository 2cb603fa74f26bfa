package dependencies

import "github.com/open-policy-agent/opa/v1/ast"

// scope is a body with all closures within it: the body of a rule or of an else branch, of a
// comprehension, of every or not, or an operand of and or or. Nil is the rule itself, with all of
// its bodies.
type scope struct{ within *scope }

// scopes are those of the expressions and variables of a rule. OPA binds a variable of a closure
// anew each time that it evaluates the closure. So one that is declared in a body and set in two
// closures of it has two values, and has one name:
//
//	some x; count([1 | x = "/a"; …]) == 1; count([1 | x = "/b"; …]) == 1
type scopes struct {
	// bodies :: expression → the body in which it stands.
	bodies map[*ast.Expr]*scope
	// homes :: variable → the innermost scope that has all of its occurrences.
	homes map[ast.Var]*scope
}

// scopesOf returns the scopes of a rule with its else branches.
func scopesOf(rule *ast.Rule) *scopes {
	s := &scopes{make(map[*ast.Expr]*scope), make(map[ast.Var]*scope)}
	for r := rule; r != nil; r = r.Else {
		s.walk(r.Head.Reference, nil)
		s.walk(r.Head.Args, nil)
		if r.Head.Key != nil {
			s.walk(r.Head.Key, nil)
		}
		body := &scope{}
		if r.Head.Value != nil { // which is made of what the body has bound
			s.walk(r.Head.Value, body)
		}
		s.body(r.Body, body)
	}
	return s
}

// body notes what stands in a body.
func (s *scopes) body(body ast.Body, at *scope) {
	for _, e := range body {
		s.bodies[e] = at
		s.walk(e, at)
	}
}

// walk notes what stands in a scope.
func (s *scopes) walk(x any, at *scope) {
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case ast.Body:
			s.body(x, &scope{within: at})
			return true
		case ast.Var:
			s.occurs(x, at)
		}
		return false
	}).Walk(x)
}

// occurs notes that a variable stands in a scope.
func (s *scopes) occurs(v ast.Var, at *scope) {
	home, known := s.homes[v]
	if !known {
		home = at
	}
	for !at.isWithin(home) {
		home = home.within
	}
	s.homes[v] = home
}

// isWithin reports whether a scope is another, or stands in it.
func (s *scope) isWithin(other *scope) bool {
	for s != other && s != nil {
		s = s.within
	}
	return s == other
}

// serves reports whether what an expression says of a variable is so wherever the variable stands:
// there is no occurrence outside of the body in which the expression stands.
func (s *scopes) serves(e *ast.Expr, v ast.Var) bool {
	at, known := s.bodies[e]
	return known && s.homes[v] == at
}

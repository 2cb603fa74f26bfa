package change

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// aligned are bodies at one place of two definitions; nil if one of them has none.
type aligned struct{ live, candidate *body }

// align puts the bodies of two definitions side by side, in their order: first those that are the same, and
// what is between them from the first on.
func align(live, candidate *definition) (out []aligned) {
	x, y := live.bodies, candidate.bodies
	between := func(i, j int) {
		for i > 0 || j > 0 {
			var one aligned
			if i > 0 {
				one.live, x, i = x[0], x[1:], i-1
			}
			if j > 0 {
				one.candidate, y, j = y[0], y[1:], j-1
			}
			out = append(out, one)
		}
	}
	same := func() (i, j int) {
		for i := range x {
			text := live.ownText(x[i])
			if j := slices.IndexFunc(y, func(of *body) bool { return candidate.ownText(of) == text }); j >= 0 {
				return i, j
			}
		}
		return -1, -1
	}
	for i, j := same(); i >= 0; i, j = same() {
		between(i, j)
		x, y = x[1:], y[1:]
	}
	between(len(x), len(y))
	return out
}

// ownText is the text of a body with its head, by names of its own.
func (d *definition) ownText(of *body) string {
	alone := *of.rule
	alone.Else = nil
	return d.bodyText(of, numbered(d.scope.locals(&alone)))
}

// counterparts are a body of each policy that say the same but for what differs.
type counterparts struct {
	live, candidate *definition
	x, y            *body
}

func (b *builder) bodies(of counterparts) {
	if of.x.rule.Default && of.y.rule.Default {
		b.defaults(of)
		return
	}
	mine, others := common(of.x, of.y, of.live.scope, of.candidate.scope)
	// With another head a body is another one as a whole. A condition that it has lost is one more item: requests that
	// need both bodies show nothing of that.
	whole := of.live.headShape(of.x, mine) != of.candidate.headShape(of.y, others)
	if !whole && of.live.headText(of.x, mine) != of.candidate.headText(of.y, others) {
		b.head(of)
	}
	removed, added := onlyIn(of.live.texts(of.x, mine), of.candidate.texts(of.y, others))
	removed, added = b.literals(of, removed, added)
	if b.conditions(Live, of.live, of.x, removed) || whole {
		b.rule(Live, of.live, of.x)
	}
	if b.conditions(Candidate, of.candidate, of.y, added) || whole {
		b.rule(Candidate, of.candidate, of.y)
	}
}

// written is an expression with its text under a naming.
type written struct {
	*expression
	text  string
	shape string
}

// texts are the expressions of a body under a naming.
func (d *definition) texts(of *body, by variableNames) (out []written) {
	for _, e := range of.expressions {
		out = append(out, written{e, d.scope.text(e.ast, by), d.scope.renamed(shape(e.ast).Copy(), by)})
	}
	return out
}

// onlyIn returns what each of two lists has beyond the other. Of equal ones each counts.
func onlyIn(a, b []written) (left, right []written) {
	minus := func(a, b []written) (out []written) {
		n := make(map[string]int)
		for _, w := range b {
			n[w.text]++
		}
		for _, w := range a {
			if n[w.text] > 0 {
				n[w.text]--
				continue
			}
			out = append(out, w)
		}
		return out
	}
	return minus(a, b), minus(b, a)
}

// literals adds the expressions in which constants alone differ, and returns what is left.
func (b *builder) literals(of counterparts, removed, added []written) (_, _ []written) {
	for i := 0; i < len(added); i++ {
		j := slices.IndexFunc(removed, func(w written) bool { return w.shape == added[i].shape })
		if j < 0 {
			continue
		}
		b.literal(of, removed[j], added[i])
		removed, added = slices.Delete(removed, j, j+1), slices.Delete(added, i, i+1)
		i--
	}
	return removed, added
}

// literal adds an expression in which constants alone differ: each becomes a reference to data, where
// that of the other side can take its place.
func (b *builder) literal(bodies counterparts, l, c written) {
	at, name := c.ast.Location, bodies.candidate.name
	of := constant{
		item: Item{Kind: Literal, Side: Both, File: at.File, Line: at.Row, Rule: name},
		live: constants(l.ast), candidate: constants(c.ast), liveText: string(l.ast.Location.Text), candidateText: string(at.Text),
		identity: []string{name, l.text, c.text},
	}
	of.inLive = func(f func(*ast.Term) *ast.Term) { bodies.x.rule.Body[l.at] = mapConstants(l.ast, f) }
	of.inCandidate = func(f func(*ast.Term) *ast.Term) { bodies.y.rule.Body[c.at] = mapConstants(c.ast, f) }
	b.constant(of)
}

// head adds the value of a rule, in which constants alone differ.
func (b *builder) head(bodies counterparts) {
	live, candidate, x, y := bodies.live, bodies.candidate, bodies.x, bodies.y
	at := y.rule.Location
	of := constant{
		item: Item{Kind: Literal, Side: Both, File: at.File, Line: at.Row, Rule: candidate.name},
		live: constantsIn(x.rule.Head.Value), candidate: constantsIn(y.rule.Head.Value),
		liveText: live.lineAt(x.rule.Location), candidateText: candidate.lineAt(at),
		identity: []string{candidate.name, live.ownText(x), candidate.ownText(y)},
	}
	replace := func(r *ast.Rule) func(func(*ast.Term) *ast.Term) {
		return func(f func(*ast.Term) *ast.Term) {
			head := *r.Head
			head.Value = mapTerm(r.Head.Value, f)
			r.Head = &head
		}
	}
	of.inLive, of.inCandidate = replace(x.rule), replace(y.rule)
	b.constant(of)
}

// conditions adds expressions that one side alone has. It reports whether there are some that are no
// conditions: then they make the body an item.
func (b *builder) conditions(side Side, d *definition, of *body, only []written) (whole bool) {
	for _, w := range only {
		if !isCondition(w.ast) {
			whole = true
			continue
		}
		at := w.ast.Location
		item := Item{Kind: Condition, Side: side, File: at.File, Line: at.Row, Rule: d.name}
		setText(&item, side, string(at.Text))
		place := b.add(item, d.name, w.text)
		b.target(side, of, place, w.expression)
		b.force(side, d, of, place, w.expression)
	}
	return whole
}

// isCondition reports whether an expression says something that may be true of one request and not of
// another: it gives no name, and has a variable.
func isCondition(e *ast.Expr) bool {
	if e.IsAssignment() {
		return false
	}
	if d, ok := e.Terms.(*ast.SomeDecl); ok {
		_, in := d.Symbols[0].Value.(ast.Call)
		return in
	}
	return !isGround(e)
}

// isGround reports whether an expression has no variable and no reference but to the functions that it calls.
func isGround(e *ast.Expr) bool {
	ground := true
	var visitor *ast.GenericVisitor
	visitor = ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Expr:
			if terms, ok := x.Terms.([]*ast.Term); ok {
				for _, t := range terms[1:] {
					visitor.Walk(t)
				}
				return true
			}
		case ast.Call:
			for _, t := range x[1:] {
				visitor.Walk(t)
			}
			return true
		case ast.Var, ast.Ref:
			ground = false
		}
		return !ground
	})
	visitor.Walk(e)
	return ground
}

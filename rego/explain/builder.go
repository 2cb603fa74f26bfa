package explain

import (
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// builder makes a Trace of what a Tracer has seen.
type builder struct {
	compiler *ast.Compiler
	tracer   *Tracer
	outcomes map[*ast.Rule]*outcome
	// named :: name → the rules that have it, as far as they were met.
	named map[string][]*ast.Rule
	done  map[string]bool
	trace Trace
}

// names returns the names of the rules that a reference leads to.
func (b *builder) names(ref ast.Ref) []string {
	if !ref.HasPrefix(ast.DefaultRootRef) {
		return nil
	}
	rules := b.compiler.GetRules(ref)
	slices.SortFunc(rules, inSource)
	var out []string
	for _, r := range rules {
		name := r.Ref().GroundPrefix().String()
		if !slices.Contains(out, name) {
			out = append(out, name)
			if b.named == nil {
				b.named = make(map[string][]*ast.Rule)
			}
			b.named[name] = b.compiler.GetRules(r.Ref().GroundPrefix())
		}
	}
	return out
}

// inSource orders rules as they stand in the modules.
func inSource(a, b *ast.Rule) int { return a.Location.Compare(b.Location) }

// add adds the rules of a name, if any of them was evaluated, and returns the names that
// they refer to.
func (b *builder) add(name string) []string {
	if b.done[name] {
		return nil
	}
	b.done[name] = true
	var all []*ast.Rule
	for _, r := range b.named[name] {
		for ; r != nil; r = r.Else {
			all = append(all, r)
		}
	}
	if !slices.ContainsFunc(all, func(r *ast.Rule) bool { return b.outcomes[r] != nil }) {
		return nil
	}
	slices.SortFunc(all, inSource)
	next := make(map[string]bool)
	for _, r := range all[:min(len(all), maxRules-len(b.trace.Rules))] {
		rule := b.rule(name, r)
		b.trace.Rules = append(b.trace.Rules, rule)
		for _, p := range rule.Body {
			for _, n := range p.Rules {
				next[n] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(next))
}

// rule describes one body.
func (b *builder) rule(name string, r *ast.Rule) Rule {
	out := Rule{
		Name: name, File: r.Location.File, Line: r.Location.Row, Head: headOf(r), Default: r.Default,
		Multi: r.Head.RuleKind() == ast.MultiValue || len(r.Ref()) > len(r.Ref().GroundPrefix()), Failed: -1,
	}
	var groups []group
	if !r.Default {
		groups = groupsOf(r.Body)
	}
	for _, g := range groups[:min(len(groups), maxParts)] {
		p := b.part(g)
		if r.Head.Location != nil && within(g.location, r.Head.Location) {
			// What the compiler made a body of is the value.
			p.Line, p.Text = out.Line, out.Head
		}
		out.Body = append(out.Body, p)
	}
	if o := b.outcomes[r]; o != nil {
		out.Held, out.Missed = o.held, o.missed
		if o.missed {
			out.Failed = slices.IndexFunc(groups[:len(out.Body)], func(g group) bool { return g.has(o.reached) })
		}
	}
	return out
}

// headOf returns the text of a rule's head, on one line.
func headOf(r *ast.Rule) string {
	text := ""
	if r.Head.Location != nil {
		text = words(string(r.Head.Location.Text))
	}
	if r.Default {
		text = "default " + text
	}
	return bounded(text)
}

// part describes one expression.
func (b *builder) part(g group) Part {
	source := withoutElse(string(g.location.Text))
	out := Part{Line: g.location.Row, Text: bounded(words(source)), Key: keyOf(source)}
	seen, asked := make(map[string]bool), make(map[string]bool)
	for _, e := range g.exprs {
		if _, not := e.Terms.(*ast.Not); not || e.Negated {
			out.Negated = true
		}
		ast.WalkRefs(e, func(ref ast.Ref) bool {
			for _, name := range b.names(ref) {
				seen[name] = true
			}
			return false
		})
		b.asked(e, asked)
		if every, ok := e.Terms.(*ast.Every); ok {
			out.Inner = b.inner(every)
		}
	}
	out.Rules, out.Asked = slices.Sorted(maps.Keys(seen)), slices.Sorted(maps.Keys(asked))
	return out
}

// asked notes the rules of which an expression says that they are true, or are not: it is a
// reference to one, or a call of one.
func (b *builder) asked(e *ast.Expr, into map[string]bool) {
	var term *ast.Term
	switch of := e.Terms.(type) {
	case *ast.Term:
		term = of
	case []*ast.Term:
		term = of[0]
	case *ast.Not:
		for _, inner := range of.Body {
			b.asked(inner, into)
		}
		return
	default:
		return
	}
	if ref, ok := term.Value.(ast.Ref); ok {
		for _, name := range b.names(ref) {
			into[name] = true
		}
	}
}

// inner returns the last expression that failed in the body of an `every`.
func (b *builder) inner(every *ast.Every) (out *Part) {
	for _, g := range groupsOf(every.Body) {
		if slices.ContainsFunc(g.exprs, func(e *ast.Expr) bool { return b.tracer.failed[e] }) {
			p := b.part(g)
			out = &p
		}
	}
	return out
}

// group is what the compiler made of one expression of the source: it evaluates the
// arguments of a call first, each as an expression of its own.
type group struct {
	location *ast.Location
	exprs    []*ast.Expr
}

func (g group) has(index int) bool {
	return slices.ContainsFunc(g.exprs, func(e *ast.Expr) bool { return e.Index == index })
}

// groupsOf returns the groups of a body, in the order in which they are evaluated.
func groupsOf(body ast.Body) []group {
	var out []group
	for _, e := range body {
		if e.Location != nil {
			out = append(out, group{e.Location, []*ast.Expr{e}})
		}
	}
	return merge(merge(out)) // a group that has grown may be around another one
}

// merge joins each group with the first before it that is around it, or is a part of it.
func merge(groups []group) []group {
	var out []group
	for _, g := range groups {
		i := slices.IndexFunc(out, func(o group) bool { return within(o.location, g.location) || within(g.location, o.location) })
		if i < 0 {
			out = append(out, g)
			continue
		}
		out[i].exprs = append(out[i].exprs, g.exprs...)
		if within(out[i].location, g.location) {
			out[i].location = g.location
		}
	}
	return out
}

// within reports whether a place in the source is a part of another, or the same.
func within(inner, outer *ast.Location) bool {
	return inner.File == outer.File && inner.Offset >= outer.Offset && inner.Offset+len(inner.Text) <= outer.Offset+len(outer.Text)
}

package change

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/compile"
)

// policy is one of the two that are compared, as it was parsed.
type policy struct {
	modules map[string]*ast.Module
	// definitions are in the order of files and lines.
	definitions []*definition
}

// definition is a rule with its else branches, or a default. Those of one name are tried in no order, so
// two policies with the same definitions decide alike; the bodies of one are tried in order.
type definition struct {
	// ref is the reference, with its package, and name its text.
	ref    ast.Ref
	name   string
	bodies []*body
	// scope says what the names in it mean, and source is the text that it is in.
	scope  *scope
	source []string
	module *ast.Module
	// reached says that the definition can matter to what is asked.
	reached bool
	// words are the names in it.
	words map[string]bool
	// reads are the places below data that it may read, of rules as of values.
	reads []ast.Ref
}

// body is a rule's body, or that of one of its else branches, with its head.
type body struct {
	rule *ast.Rule
	// expressions are those of the body that can make a difference.
	expressions []*expression
}

// expression is one of a body.
type expression struct {
	ast *ast.Expr
	// at is the place in the body.
	at int
}

// scope is what the names of a module mean.
type scope struct {
	// aliases :: name of an import → what is imported.
	aliases map[ast.Var]ast.Ref
	// rules are the names of the rules of the package.
	rules map[ast.Var]bool
}

// builtins are the first names of all built-in functions.
var builtins = func() map[ast.Var]bool {
	out := make(map[ast.Var]bool)
	for name := range ast.BuiltinMap {
		first, _, _ := strings.Cut(name, ".")
		out[ast.Var(first)] = true
	}
	return out
}()

// isLocal reports whether a name is a variable of the rule that it is in. It may say no of a variable that
// has the name of something else.
func (s *scope) isLocal(v ast.Var) bool {
	return !v.IsWildcard() && !v.Equal(ast.InputRootDocument.Value) && !v.Equal(ast.DefaultRootDocument.Value) &&
		s.aliases[v] == nil && !s.rules[v] && !builtins[v]
}

// parse parses a policy.
func parse(ctx context.Context, s Source) (*policy, error) {
	modules, err := compile.Parse(ctx, s.Modules)
	if err != nil {
		return nil, err
	}
	p := &policy{modules: modules}
	names := make(map[string]map[ast.Var]bool)
	for _, m := range modules {
		of := names[m.Package.Path.String()]
		if of == nil {
			of = make(map[ast.Var]bool)
			names[m.Package.Path.String()] = of
		}
		for _, r := range m.Rules {
			if v, ok := r.Head.Ref()[0].Value.(ast.Var); ok {
				of[v] = true
			}
		}
	}
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		m := modules[file]
		source := strings.Split(s.Modules[file], "\n")
		in := &scope{aliases: make(map[ast.Var]ast.Ref), rules: names[m.Package.Path.String()]}
		for _, i := range m.Imports {
			if ref, ok := i.Path.Value.(ast.Ref); ok {
				in.aliases[i.Name()] = ref
			}
		}
		for _, r := range m.Rules {
			d := newDefinition(m, r, in)
			d.source = source
			p.definitions = append(p.definitions, d)
		}
	}
	p.reach(s.Paths)
	return p, ctx.Err()
}

func newDefinition(m *ast.Module, r *ast.Rule, in *scope) *definition {
	ref := m.Package.Path.Extend(r.Head.Ref().ConstantPrefix())
	d := &definition{ref: ref, name: ref.String(), scope: in, module: m, words: make(map[string]bool)}
	for one := r; one != nil; one = one.Else {
		b := &body{rule: one}
		if !isTrue(one.Body) {
			for at, e := range one.Body {
				if !in.isSilent(e) {
					b.expressions = append(b.expressions, &expression{ast: e, at: at})
				}
			}
		}
		d.bodies = append(d.bodies, b)
	}
	d.gather(m)
	return d
}

// lineAt is the rest of the line of the module that a place is in.
func (d *definition) lineAt(at *ast.Location) string {
	if at.Row < 1 || at.Row > len(d.source) || at.Col < 1 || at.Col > len(d.source[at.Row-1]) {
		return ""
	}
	return d.source[at.Row-1][at.Col-1:]
}

// isTrue reports whether a body is the one that the parser gives to a rule without any.
func isTrue(body ast.Body) bool {
	return len(body) == 1 && body[0].Equal(ast.NewExpr(ast.BooleanTerm(true)))
}

// isSilent reports whether an expression can make no difference: a print, a declaration of names that are variables
// anyway, or a plain true.
func (s *scope) isSilent(e *ast.Expr) bool {
	if e.Equal(ast.NewExpr(ast.BooleanTerm(true))) {
		return true
	}
	if d, ok := e.Terms.(*ast.SomeDecl); ok {
		return !slices.ContainsFunc(d.Symbols, func(t *ast.Term) bool {
			v, ok := t.Value.(ast.Var)
			return !ok || !s.isLocal(v)
		})
	}
	return e.IsCall() && e.Operator().Equal(ast.Print.Ref())
}

// gather collects the names in the definition, and what it reads of data.
func (d *definition) gather(m *ast.Module) {
	d.visit(d.bodies[0].rule)
	for _, i := range m.Imports {
		ref, ok := i.Path.Value.(ast.Ref)
		if !ok {
			continue
		}
		for _, t := range ref {
			if s, ok := t.Value.(ast.String); ok {
				d.words[string(s)] = true
			}
		}
		if ref.HasPrefix(ast.DefaultRootRef) && len(ref) > 1 {
			d.reads = append(d.reads, ref)
		}
	}
}

// visit collects those of a part.
func (d *definition) visit(part any) {
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case ast.Ref:
			d.reference(x)
			return true
		case ast.Var:
			d.words[string(x)] = true
			if x.Equal(ast.DefaultRootDocument.Value) {
				d.reads = append(d.reads, ast.DefaultRootRef)
			}
		case ast.String:
			d.words[string(x)] = true
		}
		return false
	}).Walk(part)
}

// reference collects those of a reference.
func (d *definition) reference(ref ast.Ref) {
	if v, ok := ref[0].Value.(ast.Var); ok {
		d.words[string(v)] = true
	} else {
		d.visit(ref[0])
	}
	if resolved := d.scope.resolved(ref); resolved.HasPrefix(ast.DefaultRootRef) {
		d.reads = append(d.reads, resolved.ConstantPrefix())
	}
	for _, operand := range ref[1:] {
		d.visit(operand)
	}
}

// resolved returns a reference with the import that it begins with.
func (s *scope) resolved(ref ast.Ref) ast.Ref {
	if v, ok := ref[0].Value.(ast.Var); ok && s.aliases[v] != nil {
		return s.aliases[v].Concat(ref[1:])
	}
	return ref
}

// reach notes which definitions paths can lead to: there may be some too many. A rule is named by its first
// name in its own package, and by a reference to it, to what it is in, or to what is in it.
func (p *policy) reach(paths []string) {
	r := &reach{
		named: make(map[string][]*definition), exact: make(map[string][]*definition), within: make(map[string][]*definition),
		known: make(map[string]bool),
	}
	for _, d := range p.definitions {
		v, _ := d.ref[len(d.ref)-len(d.bodies[0].rule.Head.Ref().ConstantPrefix())].Value.(ast.String)
		r.named[string(v)] = append(r.named[string(v)], d)
		r.exact[d.name] = append(r.exact[d.name], d)
		for n := 1; n <= len(d.ref); n++ {
			place := d.ref[:n].String()
			r.within[place] = append(r.within[place], d)
		}
	}
	for _, path := range paths {
		r.place(refOf(strings.Split(path, "/")))
	}
	for len(r.next) > 0 {
		d := r.next[0]
		r.next = r.next[1:]
		for word := range d.words {
			r.add(r.named[word])
		}
		for _, ref := range d.reads {
			r.place(ref)
		}
	}
}

// reach is what has been reached so far.
type reach struct {
	// named :: first name of the rule's own → definitions; exact :: place below data → those that are there, and
	// within :: place → those that are in it.
	named, exact, within map[string][]*definition
	// known are the places that were taken.
	known map[string]bool
	// next are the definitions of which the names are still to be taken.
	next []*definition
}

// place takes a place that is read.
func (r *reach) place(ref ast.Ref) {
	place := ref.String()
	if r.known[place] {
		return
	}
	r.known[place] = true
	r.add(r.within[place])
	for n := 1; n < len(ref); n++ {
		r.add(r.exact[ref[:n].String()])
	}
}

func (r *reach) add(definitions []*definition) {
	for _, d := range definitions {
		if !d.reached {
			d.reached = true
			r.next = append(r.next, d)
		}
	}
}

package change

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A default shows something only where a request is decided otherwise without it, as other rules do. But its value
// cannot be a reference. So `default limit := 10` becomes
//
//	limit := value if { value := <what limit was> } else := <a reference to 10>
//
// with the rules of limit under another name. A default of a function, or of a rule whose name has several parts, stays
// as it is: no request shows what it does.

// defaults adds a default of which the value differs.
func (b *builder) defaults(of counterparts) {
	live, candidate := of.live, of.candidate
	at := of.y.rule.Location
	item := Item{Kind: Literal, Side: Both, File: at.File, Line: at.Row, Rule: candidate.name}
	item.Live, item.Candidate = shownBoth(live.lineAt(of.x.rule.Location), candidate.lineAt(at))
	place := b.add(item, candidate.name, live.ownText(of.x), candidate.ownText(of.y))
	if place < 0 {
		return
	}
	if path := b.fallback(Live, live); path != nil {
		b.out.Live.Edits = append(b.out.Live.Edits, Edit{Item: place, Path: path, Value: of.y.rule.Head.Value.Value})
	}
	if path := b.fallback(Candidate, candidate); path != nil {
		b.out.Candidate.Edits = append(b.out.Candidate.Edits, Edit{Item: place, Path: path, Value: of.x.rule.Head.Value.Value})
	}
}

// defaultGoes has the default of one side alone go, when it is taken back.
func (b *builder) defaultGoes(side Side, d *definition, item int) {
	if path := b.fallback(side, d); path != nil {
		h := b.half(side)
		h.Edits = append(h.Edits, Edit{Item: item, Path: path})
	}
}

// fallback makes a default a reference, and returns where that is; nil if it cannot be made one.
func (b *builder) fallback(side Side, d *definition) []string {
	of := d.bodies[0].rule
	name, inner := d.renamable(), ast.Var("")
	if name == "" {
		return nil
	}
	for inner = name + "__undefaulted"; d.scope.rules[inner]; {
		inner += "_"
	}
	value, path := b.half(side).constant(of.Head.Value.Value)
	text := d.module.Package.String() + "\n\n" + string(name) + " := value if { value := " +
		d.module.Package.Path.Append(ast.StringTerm(string(inner))).String() + " } else := " + value.String()
	parsed, err := ast.ParseModuleWithOpts("", text, ast.ParserOptions{RegoVersion: ast.RegoV1})
	if err != nil {
		return nil
	}
	b.last = append(b.last, func() { d.wrap(b.sides[side].modules, parsed.Rules, name, inner) })
	return path
}

// wrap puts rules in place of the default, and gives those that it is the default of another name.
func (d *definition) wrap(modules map[string]*ast.Module, rules []*ast.Rule, name, inner ast.Var) {
	of := d.bodies[0].rule
	for _, m := range modules {
		if !m.Package.Path.Equal(d.module.Package.Path) {
			continue
		}
		m.Rules = slices.DeleteFunc(m.Rules, func(r *ast.Rule) bool { return r == of })
		for _, r := range m.Rules {
			rename(r, name, inner)
		}
	}
	for _, r := range rules {
		for one := r; one != nil; one = one.Else {
			one.Module = d.module
		}
		d.module.Rules = append(d.module.Rules, r)
	}
}

// renamable returns the name of a default of which the rules can have another name; empty if they cannot.
func (d *definition) renamable() ast.Var {
	head := d.bodies[0].rule.Head
	name, ok := head.Ref()[0].Value.(ast.Var)
	if !ok || len(head.Ref()) != 1 || len(head.Args) > 0 {
		return ""
	}
	return name
}

// rename gives a rule another name, with its else branches.
func rename(r *ast.Rule, from, to ast.Var) {
	for one := r; one != nil; one = one.Else {
		if v, ok := one.Head.Ref()[0].Value.(ast.Var); ok && v == from && len(one.Head.Ref()) == 1 {
			head := *one.Head
			head.Name, head.Reference = to, ast.Ref{ast.NewTerm(to)}
			one.Head = &head
		}
	}
}

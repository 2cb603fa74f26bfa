package coverage

import (
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// rule is one body of a rule, or one of its else branches, as it was parsed.
type rule struct {
	ast *ast.Rule
	// name is the reference, with its package.
	name string
	// key is equal for rules that are the same.
	key         string
	expressions []expression
	// words are the names in it; everything says that it may lead to any rule.
	words      map[string]bool
	everything bool
	// reached says that the rule can matter to what is asked.
	reached bool
	// aliases :: name of an import → what is imported.
	aliases map[ast.Var]ast.Ref
}

// expression is one of a body.
type expression struct {
	ast  *ast.Expr
	key  string
	span Span
	// assigns says that it gives a name to something, and is no condition of its own.
	assigns bool
}

func newRule(module *ast.Module, r *ast.Rule) *rule {
	out := &rule{ast: r, words: make(map[string]bool), aliases: make(map[ast.Var]ast.Ref)}
	head := r.Head.String()
	out.name = module.Package.Path.String() + "." + r.Head.Ref().ConstantPrefix().String()
	for _, i := range module.Imports {
		if ref, ok := i.Path.Value.(ast.Ref); ok {
			out.aliases[i.Name()] = ref
		}
	}
	var text strings.Builder
	text.WriteString(module.Package.Path.String() + "\n" + head)
	if r.Default {
		text.WriteString("\ndefault")
	}
	if !isTrue(r.Body) {
		for _, e := range r.Body {
			one := expression{ast: e, key: e.String(), assigns: e.IsAssignment()}
			if d, ok := e.Terms.(*ast.SomeDecl); ok {
				one.assigns = len(d.Symbols) == 0 || !isIn(d)
			}
			if e.Location != nil {
				one.span = Span{e.Location.Offset, len(e.Location.Text)}
			}
			out.expressions = append(out.expressions, one)
			text.WriteString("\n" + one.key)
		}
	}
	out.gather()
	for _, name := range slices.Sorted(maps.Keys(out.aliases)) {
		if out.words[string(name)] {
			text.WriteString("\nimport " + string(name) + " " + out.aliases[name].String())
		}
	}
	out.key = text.String()
	return out
}

// isIn reports whether a declaration is one of `some x in xs`, which can fail.
func isIn(d *ast.SomeDecl) bool {
	_, call := d.Symbols[0].Value.(ast.Call)
	return call
}

// gather collects the names in the rule.
func (r *rule) gather() {
	alone := *r.ast
	alone.Else = nil
	ast.WalkTerms(&alone, func(t *ast.Term) bool {
		switch v := t.Value.(type) {
		case ast.Var:
			r.words[string(v)] = true
		case ast.String:
			r.words[string(v)] = true
		case ast.Ref:
			// data.lib[name] may be any rule.
			if ref := r.resolved(v); ref.HasPrefix(ast.DefaultRootRef) && len(ref.ConstantPrefix()) < len(ref) {
				r.everything = r.everything || len(ref.ConstantPrefix()) == 1
			}
		}
		return false
	})
	for _, ref := range r.aliases {
		for _, t := range ref {
			if s, ok := t.Value.(ast.String); ok {
				r.words[string(s)] = true
			}
		}
	}
}

// resolved returns a reference with the import that it begins with.
func (r *rule) resolved(ref ast.Ref) ast.Ref {
	if v, ok := ref[0].Value.(ast.Var); ok && r.aliases[v] != nil {
		return r.aliases[v].Concat(ref[1:])
	}
	return ref
}

func (r *rule) has(key string) bool {
	return slices.ContainsFunc(r.expressions, func(e expression) bool { return e.key == key })
}

// common is how many expressions two rules have in common.
func (r *rule) common(other *rule) (n int) {
	for _, e := range r.expressions {
		if other.has(e.key) {
			n++
		}
	}
	return n
}

// reach notes which rules paths can lead to: by name, so that there may be some too many.
func reach(all []*rule, paths []string) {
	words := make(map[string]bool)
	everything := false
	for more := true; more; {
		more = false
		for _, r := range all {
			if r.reached || !everything && !r.named(words) && !r.asked(paths) {
				continue
			}
			r.reached, more = true, true
			everything = everything || r.everything
			for word := range r.words {
				words[word] = true
			}
		}
	}
}

func reached(rules []*rule) (out []*rule) {
	for _, r := range rules {
		if r.reached {
			out = append(out, r)
		}
	}
	return out
}

// named reports whether the first name of the rule's own is among words.
func (r *rule) named(words map[string]bool) bool {
	return words[string(r.ast.Head.Ref()[0].Value.(ast.Var))]
}

// asked reports whether the rule is asked by a path, or a part of what is.
func (r *rule) asked(paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		name := "data." + strings.ReplaceAll(path, "/", ".")
		return r.name == name || strings.HasPrefix(r.name, name+".") || strings.HasPrefix(name, r.name+".")
	})
}

// readsAny returns the expressions that read any of some paths of the data. It reports false
// if the rule reads none.
func (r *rule) readsAny(paths []string) (spans []Span, reads bool) {
	if len(paths) == 0 {
		return nil, false
	}
	touches := func(x any) (found bool) {
		ast.WalkRefs(x, func(ref ast.Ref) bool {
			ref = r.resolved(ref)
			if ref.HasPrefix(ast.DefaultRootRef) {
				read := ref.ConstantPrefix().String()
				found = found || slices.ContainsFunc(paths, func(p string) bool {
					return p == read || strings.HasPrefix(p, read+".") || strings.HasPrefix(p, read+"[") ||
						strings.HasPrefix(read, p+".") || strings.HasPrefix(read, p+"[")
				})
			}
			return found
		})
		return found
	}
	for _, e := range r.expressions {
		if touches(e.ast) {
			spans, reads = append(spans, e.span), true
		}
	}
	return spans, reads || touches(r.ast.Head)
}

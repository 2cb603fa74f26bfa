package evaluator

import (
	"cmp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"

	"understudy/rego/opaque"
)

// origin is where a value comes from, as far as the text of the policy shows. It is for explanations: no
// evaluation depends on it. It is asked when all is compiled, since a function does not know its callers
// before. Nil is a value of which nothing is known.
type origin func(resolver) facts

// facts say what a value may be in evaluations.
type facts struct {
	// text is how Rego writes it; empty if that is not known.
	text string
	// opaque says that it may be a request's, of which nothing is known before it is asked for, and computed that
	// it may have been made of what is known.
	opaque, computed bool
	// position says that it may be a position in an array, which is known without having been computed.
	position bool
	// fixed says that it may belong to the program, next to what else it may be.
	fixed bool
	// isText says that it can be nothing but a string, or a collection of strings.
	isText bool
	// root says that it may be the whole input, about which there are no questions.
	root bool
	// table says that it is looked up in what belongs to the program.
	table bool
	// clock is the built-in by which it comes from the clock; raw says that it is what the clock shows, or
	// computed from that.
	clock string
	raw   bool
}

// variable reports whether the value is another one in another request.
func (f facts) variable() bool { return f.opaque || f.raw || f.computed }

// maybeSet reports whether the value may be a set: values of requests are none.
func (f facts) maybeSet() bool { return !f.opaque || f.computed || f.table }

// known reports whether the value can be nothing but what evaluations have computed.
func (f facts) known() bool { return f.computed && !f.opaque && !f.raw && !f.position && !f.fixed }

// constant is the origin of what belongs to the program.
func constant(text string) origin {
	return func(resolver) facts { return facts{text: text, table: true} }
}

// computed is the origin of what evaluations have made of what they know: nothing is learned of it any more.
func computed(resolver) facts { return facts{computed: true} }

// inputAt is the origin of what stands at a path of the input.
func inputAt(keys []*ast.Term) origin {
	text := append(ast.Ref{ast.InputRootDocument}, keys...).String()
	return func(resolver) facts {
		return facts{text: text, opaque: true, isText: isTextAt(text), root: len(keys) == 0}
	}
}

// textPaths are paths of Envoy's input at which there are only strings.
var textPaths = []string{"input.attributes.request.http.", "input.parsed_path", "input.parsed_query"}

// isTextAt reports whether there are only strings at a path of the input.
func isTextAt(path string) bool {
	return path != "input.attributes.request.http.size" &&
		slices.ContainsFunc(textPaths, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// returnsText reports whether a built-in returns a string.
func returnsText(name string) bool {
	b, ok := ast.BuiltinMap[name]
	return ok && types.Compare(b.Decl.Result(), types.S) == 0
}

// made is the origin of what a function makes of values.
func made(f *opaque.Function, of []origin) origin {
	return func(r resolver) facts {
		out, known := facts{}, false
		texts := make([]string, len(of))
		for i, o := range of {
			operand := r.of(o)
			texts[i] = cmp.Or(operand.text, "…")
			if i == 0 {
				out.table, out.isText = f.Part && operand.table, f.Part && operand.isText || returnsText(f.Name)
			}
			out.madeOf(operand, f)
			known = known || operand.known()
		}
		if f.Clock {
			out.clock, out.raw = f.Name, len(of) == 0
			out.opaque = out.opaque || !out.raw // though all operands may be constants
		}
		if known { // all of them are forced
			return facts{computed: true}
		}
		out.text = f.Text(texts...)
		return out
	}
}

// madeOf adds what a result has from one of the operands of a function.
func (f *facts) madeOf(operand facts, by *opaque.Function) {
	f.opaque, f.computed, f.raw = f.opaque || operand.opaque, f.computed || operand.computed, f.raw || operand.raw
	f.fixed = f.fixed || operand.fixed
	if !by.Part || operand.raw {
		f.clock += operand.clock
	}
}

// partOf is the origin of the values in a collection.
func (o origin) part() origin { return made(opaque.GetKey, []origin{o, constant("_")}) }

// key is the origin of the keys of a collection.
func (o origin) key() origin {
	return func(r resolver) facts {
		if of := r.of(o); of.opaque || of.computed {
			return facts{computed: !of.table, position: true}
		}
		return facts{}
	}
}

// union is the origin of what is one of several values, which are added while a policy is compiled.
type union struct {
	// name is what the policy calls it.
	name string
	of   []origin
}

func (u *union) add(o origin) { u.of = append(u.of, o) }

func (u *union) origin() origin { return func(r resolver) facts { return r.union(u) } }

// resolver knows unions of origins that were asked before.
type resolver map[*union]facts

func (r resolver) of(o origin) facts {
	if o == nil {
		return facts{opaque: true, computed: true}
	}
	return o(r)
}

func (r resolver) union(u *union) facts {
	if known, ok := r[u]; ok {
		return known
	}
	r[u] = facts{text: u.name, opaque: true} // for an argument that is made of itself: f(f(x))
	out := facts{table: true, isText: true}
	for _, o := range u.of {
		one := r.of(o)
		if one.opaque || one.raw {
			out.text = u.textWith(out.text, one.text)
		}
		out.join(one)
	}
	out.text = cmp.Or(out.text, u.name)
	r[u] = out
	return out
}

// textWith is the text of a union, to which a value with a text comes: that of all of its values, if they have the
// same one and it is not long.
func (u *union) textWith(before, one string) string {
	if before != "" && before != one || strings.Contains(one, "(") {
		return u.name
	}
	return one
}

// join adds what another value of a union may be.
func (f *facts) join(one facts) {
	f.opaque, f.computed, f.table = f.opaque || one.opaque, f.computed || one.computed, f.table && one.table
	f.isText, f.fixed = f.isText && one.isText, f.fixed || one.fixed || !one.variable() && !one.position
	f.raw, f.root, f.position = f.raw || one.raw, f.root || one.root, f.position || one.position
	if !strings.Contains(f.clock, one.clock) {
		f.clock = one.clock
	}
}

// originOf returns the origin of a term that is no reference.
func (s scope) originOf(t *ast.Term) origin {
	if v, ok := t.Value.(ast.Var); ok {
		return s.bound[v].from
	}
	switch {
	case isConstant(t):
		return constant(textOf(t))
	case !isComposite(t.Value):
		return computed
	}
	if _, isSet := t.Value.(ast.Set); isSet {
		return collected(s.partsOf(t))
	}
	return composedOf(s.partsOf(t))
}

// partsOf returns the origins of the variables in a term. What is made of them keeps no scope, and so no policy.
func (s scope) partsOf(t *ast.Term) (out []origin) {
	ast.WalkVars(t, func(v ast.Var) bool {
		out = append(out, s.bound[v].from)
		return false
	})
	return out
}

// collected is the origin of a set of values.
func collected(parts []origin) origin {
	return func(r resolver) facts {
		return facts{computed: slices.ContainsFunc(parts, func(part origin) bool { return r.of(part).variable() })}
	}
}

// composedOf is the origin of an array or object of values.
func composedOf(parts []origin) origin {
	return func(r resolver) facts {
		out := facts{}
		for _, o := range parts {
			part := r.of(o)
			out.opaque, out.computed, out.raw = out.opaque || part.opaque, out.computed || part.computed || part.root, out.raw || part.raw
			out.fixed = out.fixed || part.fixed
			if !strings.Contains(out.clock, part.clock) {
				out.clock += part.clock
			}
		}
		return out
	}
}

// originsOf returns those of some terms.
func (s scope) originsOf(terms []*ast.Term) (out []origin) {
	for _, t := range terms {
		out = append(out, s.originOf(t))
	}
	return out
}

// maxConstant is how much of a constant is shown, in bytes.
const maxConstant = 24

func textOf(t *ast.Term) string {
	if text := t.String(); len(text) <= maxConstant {
		return text
	}
	return "…"
}

package evaluator

import (
	"maps"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// Compiler turns the rules of one compiled policy into closures, as far as they are reached. It
// is used by one goroutine; what it makes is immutable.
type Compiler struct {
	compiler *ast.Compiler
	// data is the base document.
	data ast.Value
	// defined :: node of the rule tree → what its rules define.
	defined map[*ast.TreeNode]document
	// counts is a value of its own, so that queries do not keep the compiler.
	*counts
	// long :: rule → whether it may take long.
	long map[*ast.Rule]bool
	// vocabulary has what may stay opaque, and calls are the built-ins that are a part of it, by name.
	vocabulary *opaque.Vocabulary
	calls      map[string]*opaque.Function
}

// counts are how many there are of what a machine has a place for.
type counts struct {
	// documents are those that rules define, and indexes those of comprehensions.
	documents, indexes, layouts int
}

// Vocabulary returns what evaluations can ask a request. It is complete when all paths are compiled.
func (c *Compiler) Vocabulary() *opaque.Vocabulary { return c.vocabulary }

// document is what the rules of one name define.
type document interface {
	// reached returns what its rules need, and a form that one of them has and that is
	// not known.
	reached() *definition
}

// newIndex returns the number of another comprehension with an index.
func (c *Compiler) newIndex() int {
	c.indexes++
	return c.indexes - 1
}

// definition is what documents have in common.
type definition struct {
	id int
	// problems are the forms in the rules that are not known. An evaluation that comes to one is left to OPA.
	problems []*Cause
	// unusable is one of them for which there are no closures at all; nil if there is none.
	unusable *Cause
	// needs are the documents to which the rules refer.
	needs []document
	// sites are where something is learned, and outcome where the values come from.
	sites   []*site
	outcome union
	// operands are where arguments and keys come from.
	operands []*union
	// agree is where two of the values are compared.
	agree *site
}

func (d *definition) reached() *definition { return d }

// NewCompiler returns a Compiler for a policy that OPA has compiled. Its modules may not be
// changed any more. The data is the base document.
func NewCompiler(compiler *ast.Compiler, data ast.Value) *Compiler {
	return &Compiler{
		compiler: compiler, data: data, counts: &counts{}, defined: make(map[*ast.TreeNode]document),
		vocabulary: opaque.NewVocabulary(), calls: make(map[string]*opaque.Function),
		long: make(map[*ast.Rule]bool),
	}
}

// scope is where in a body the compiler is.
type scope struct {
	*body
	// bound are the variables that have a value there. It is not changed: what binds another
	// one makes a copy.
	bound map[ast.Var]variable
	// several says that what follows may be evaluated more than once.
	several bool
}

// variable is what is known of a variable that has a value.
type variable struct {
	// from is where the value comes from.
	from origin
	// constants are those of which it is one; nil if that is not known.
	constants []*ast.Term
	// column is the constant array of which it is an element, nil if it is none.
	column *ast.Array
	// enumerated says that it comes from going through a collection, so that OPA's index of rules cannot know it.
	enumerated bool
	// global is the reference that it is assigned, if that has one value in an evaluation; else empty.
	global string
}

// body is the body of a rule, while it is compiled.
type body struct {
	c *Compiler
	*definition
	*layout
	// slots :: variable → where frames have its value.
	slots map[ast.Var]int
	// at is the site of the expression that is compiled.
	at *ast.Location
}

// then is what is compiled behind a step.
type then func(scope) step

// thenValue is what is compiled behind a term.
type thenValue func(scope, source) step

// source is a term that is compiled. Closures take from it what evaluations need: what else it has is memory.
type source struct {
	expr
	// array is the constant array of which it is an element, nil if it is none. Frames have the
	// position of the element at a slot.
	array *ast.Array
	slot  int
	// constants are those of which it is one; nil if that is not known.
	constants []*ast.Term
	// present says that it has a value for sure.
	present bool
	// from is where it comes from.
	from origin
	// enumerated says that it comes from going through a collection.
	enumerated bool
	// global is the reference that it is, if that has one value in an evaluation; else empty.
	global string
}

func newScope(c *Compiler, d *definition, at *ast.Location) scope {
	c.layouts++
	b := &body{c: c, definition: d, layout: &layout{id: c.layouts - 1}, slots: make(map[ast.Var]int), at: at}
	return scope{body: b, bound: map[ast.Var]variable{}}
}

// slot returns where frames have the value of a variable.
func (b *body) slot(v ast.Var) int {
	s, ok := b.slots[v]
	if !ok {
		s = b.temporary()
		b.slots[v] = s
	}
	return s
}

// temporary returns a slot that no variable has.
func (b *body) temporary() int {
	b.vars++
	return b.vars - 1
}

// closure returns the number of a new closure.
func (b *body) closure() int {
	b.closures++
	return b.closures - 1
}

// has reports whether a variable has a value.
func (s scope) has(v ast.Var) bool {
	_, ok := s.bound[v]
	return ok
}

// binding returns the scope in which a variable has a value as well.
func (s scope) binding(v ast.Var, known variable) scope {
	s.bound = maps.Clone(s.bound)
	s.bound[v] = known
	return s
}

// constantsOf returns the constants of which a term is one, nil if that is not known.
func (s scope) constantsOf(t *ast.Term) []*ast.Term {
	if v, ok := t.Value.(ast.Var); ok {
		return s.bound[v].constants
	}
	if isConstant(t) {
		return []*ast.Term{t}
	}
	return nil
}

// unsupported ends the compilation at this site.
func (b *body) unsupported(form string) { unsupported(b.at, Interpreted, form) }

// compiled calls a function that compiles the rules of a document, and notes a form that is
// not known.
func (d *definition) compiled(compile func()) {
	defer d.recoverForm(func(problem *Cause) { d.unusable = problem })
	compile()
}

// recoverForm is deferred: it calls a function with the form that ended a compilation, and notes it.
func (d *definition) recoverForm(ended func(*Cause)) {
	switch problem := recover().(type) {
	case nil:
	case *Cause:
		d.problems = append(d.problems, problem)
		ended(problem)
	default:
		panic(problem)
	}
}

// visit calls a function for a definition and all that it needs, each once.
func (d *definition) visit(seen map[*definition]bool, f func(*definition)) {
	if seen[d] {
		return
	}
	seen[d] = true
	f(d)
	for _, needed := range d.needs {
		needed.reached().visit(seen, f)
	}
}

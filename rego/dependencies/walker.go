package dependencies

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// Dependencies are what the value of one rule depends on, found by walking the compiled
// modules: rules, paths of the input, built-ins.
type Dependencies struct {
	// Reads are the paths of the input.
	Reads *Reads
	// Cacheable says that the value is a function of what is read, or changes only
	// at moments that the evaluation notes on its validity.
	Cacheable bool
	// Deterministic says that the value is a function of the input and of where the
	// clock stands.
	Deterministic bool
}

// walker follows references from rule to rule. It errs on one side: what it does not
// understand is read whole, and neither cacheable nor deterministic. It only ever
// adds dependencies.
type walker struct {
	analysis *Analysis
	// seen :: rule → how much of it.
	seen map[*ast.Rule]depth
	// followed are the references whose rules have been seen.
	followed map[string]bool
	queue    []visit
	found    Dependencies
	// unit is the rule that is walked, with what is known of its variables.
	unit *unit
	// causes are nil unless they are asked for.
	causes *causes
}

// depth is how much of a rule matters: whether it has a value, or also which.
type depth int

const (
	conditions depth = 1 + iota
	everything
)

// visit is a rule that is to be walked.
type visit struct {
	rule  *ast.Rule
	depth depth
}

// Of returns what the value of the rule or document at ref depends on. It walks
// everything that ref can lead to, each rule once, so its time grows with the policy
// and not with the ways through it.
func (a *Analysis) Of(ref ast.Ref) Dependencies { return a.of(ref, nil) }

func (a *Analysis) of(ref ast.Ref, causes *causes) Dependencies {
	w := &walker{
		causes:   causes,
		analysis: a, seen: make(map[*ast.Rule]depth), followed: make(map[string]bool),
		found: Dependencies{Reads: &Reads{}, Cacheable: true, Deterministic: true},
	}
	for _, rule := range a.RulesAt(ref) {
		w.follow(rule, everything)
	}
	for len(w.queue) > 0 {
		next := w.queue[0]
		w.queue = w.queue[1:]
		w.rule(next)
	}
	w.found.Reads.settle()
	return w.found
}

// rule walks a rule with its else branches.
func (w *walker) rule(next visit) {
	if w.analysis.opaque {
		w.giveUp()
		return
	}
	w.unit = w.analysis.unit(next.rule)
	for r := next.rule; r != nil; r = r.Else {
		if next.depth == everything {
			// The visitor of OPA leaves out the reference of a head.
			w.causes.reach(r.Head.Location)
			w.walk(r.Head.Reference)
			w.walk(r.Head)
		}
		w.walk(r.Body)
	}
}

// giveUp is for what is not understood: everything is read, and nothing is known of
// the value.
func (w *walker) giveUp() {
	w.causes.calls(NotUnderstood, "")
	w.found = Dependencies{Reads: ReadsEverything}
}

func (w *walker) walk(x any) { ast.NewGenericVisitor(w.visit).Walk(x) }

// visit returns true for what it has looked at entirely. A kind of term or expression that a new
// version of OPA brings is not understood, and nor is a call in a term: the compiler makes an
// expression of each.
func (w *walker) visit(x any) bool {
	switch x := x.(type) {
	case *ast.Expr:
		return w.expr(x)
	case ast.Ref:
		w.ref(x)
		return true
	case ast.Var:
		w.variable(x)
	case *ast.Head, ast.Args, ast.Body, *ast.Every, *ast.Not, *ast.LogicalAnd, *ast.LogicalOr, // what has terms or expressions
		*ast.Term, *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension, *ast.Array, ast.Object, ast.Set,
		ast.Null, ast.Boolean, ast.Number, ast.String: // values
	default:
		w.giveUp()
	}
	return false
}

// expr looks at what makes an expression more than its terms.
func (w *walker) expr(e *ast.Expr) bool {
	w.causes.reach(e.Location)
	if len(e.With) > 0 {
		// The modifier replaces input, data or functions for all that is reached.
		w.analysis.mocks(e)
		w.giveUp()
		return false
	}
	switch terms := e.Terms.(type) {
	case *ast.Term, *ast.Every, *ast.Not, *ast.LogicalAnd, *ast.LogicalOr:
		return false
	case []*ast.Term:
		if len(terms) > 0 {
			return w.call(e, terms)
		}
	}
	w.giveUp() // nor does OPA's visitor know what is in it
	return false
}

// call looks at a call of a function or built-in. It returns true for what it has looked at entirely.
func (w *walker) call(e *ast.Expr, terms []*ast.Term) bool {
	operator, ok := terms[0].Value.(ast.Ref)
	if !ok {
		w.giveUp()
		return false
	}
	if operator.HasPrefix(ast.DefaultRootRef) {
		return false
	}
	w.builtin(operator.String())
	if !w.objectGet(e) && !w.observing(e) {
		w.operands(terms[1:])
	}
	return true
}

// builtin notes a call of a built-in. The clock is a path, and noted as what uses it
// (reads).
func (w *walker) builtin(name string) {
	instrumented := w.analysis.Builtins.Has(name)
	switch original := w.analysis.Builtins.Original(name); {
	case original == ast.JWTDecodeVerify.Name && instrumented:
		w.causes.calls(ClockBound, original)
	case original == ast.JWTDecodeVerify.Name:
		w.causes.calls(ClockUsed, original)
		w.found.Cacheable = false
	case !pure[original] && original != ast.NowNanos.Name:
		w.causes.calls(Impure, original)
		w.found.Cacheable, w.found.Deterministic = false, false
	}
}

// objectGet understands object.get with a constant key, or an array of such: it reads what is there
// and needs the object to be there.
func (w *walker) objectGet(e *ast.Expr) bool {
	terms := e.Operands()
	if w.unit.builtin(e) != ast.ObjectGet.Name || len(terms) < 3 {
		return false
	}
	keys := []*ast.Term{terms[1]}
	if array, ok := terms[1].Value.(*ast.Array); ok {
		keys = nil
		array.Foreach(func(key *ast.Term) { keys = append(keys, key) })
	}
	object := w.path(terms[0])
	path, rest := extend(object, keys)
	if object == nil || len(rest) > 0 {
		return false
	}
	w.exists(object)
	w.reads(path)
	w.operands(terms[2:])
	return true
}

// path returns the path that a term stands for, nil if there is none, and follows the rule by
// which it does.
func (w *walker) path(t *ast.Term) []string {
	path, by := w.unit.path(t)
	if by != nil {
		w.follow(by, conditions)
	}
	return path
}

// variable is one that stands alone: an alias of a path is read whole then.
func (w *walker) variable(v ast.Var) {
	if v.Equal(ast.InputRootDocument.Value) || v.Equal(ast.DefaultRootDocument.Value) {
		w.giveUp()
		return
	}
	if alias, ok := w.unit.aliases[v]; ok {
		w.reads(alias.path)
	}
}

// reads notes that all of what is at a path is used. What the clock says must not be.
func (w *walker) reads(path []string) {
	if isClock(path) {
		w.causes.calls(ClockUsed, ast.NowNanos.Name)
		w.found.Cacheable = false
		return
	}
	w.causes.reads(path)
	w.found.Reads.addWhole(path)
}

// exists notes that it matters whether there is something at a path.
func (w *walker) exists(path []string) {
	if !isClock(path) {
		w.found.Reads.addExists(path)
	}
}

// ref looks at a reference: to what has a path, to rules or to data.
func (w *walker) ref(ref ast.Ref) {
	if path, rest, by := w.unit.resolve(ast.NewTerm(ref)); path != nil {
		if by != nil {
			w.follow(by, conditions)
		}
		w.reads(path)
		w.operands(rest)
		return
	}
	w.operands(ref[1:])
	if ref[0].Equal(ast.DefaultRootDocument) {
		w.rules(ref)
		return
	}
	if _, ok := ref[0].Value.(ast.Var); !ok {
		w.walk(ref[0])
	}
}

// operands looks at the terms within a reference.
func (w *walker) operands(terms []*ast.Term) {
	for _, t := range terms {
		w.walk(t)
	}
}

// rules follows a reference to all rules that it may touch: data.a[x] may be any rule
// below data.a. The text of a reference is the key, since equal references touch equal
// rules.
func (w *walker) rules(ref ast.Ref) {
	if name := ref.String(); !w.followed[name] {
		w.followed[name] = true
		for _, rule := range w.analysis.RulesAt(ref) {
			w.follow(rule, everything)
		}
	}
}

// follow puts a rule in the queue, once for each depth.
func (w *walker) follow(rule *ast.Rule, d depth) {
	if w.seen[rule] < d {
		w.seen[rule] = d
		w.queue = append(w.queue, visit{rule, d})
	}
}

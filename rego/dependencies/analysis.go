// Package dependencies finds out what the value of a rule depends on: what of its input
// it reads, and whether it is a function of that.
//
// It walks compiled modules, once, before they are evaluated. A rule reaches other rules,
// paths of the input and built-ins. From these follow its read set ([Reads]), whether its
// value may be cached for inputs that are equal in what is read, and whether it is
// deterministic. Where the clock reaches nothing but comparisons, these are instrumented:
// an evaluation then notes how long its value is valid. The analysis errs on one side:
// what it does not understand is read whole and not cached.
package dependencies

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/instrument"
)

// Analysis is what is known of the compiled modules, rule by rule. It is made once,
// before the modules are evaluated for the first time, and is not safe for concurrent
// use.
//
// It looks at compiled modules since there every expression is simple: calls are not
// nested, every local variable has a unique name, and references are complete.
type Analysis struct {
	compiler *ast.Compiler
	// units :: rule → what is known of its variables.
	units map[*ast.Rule]*unit
	// inputRules :: reference of a rule → the path of the input that it stands for,
	// such as `http := input.attributes.request.http`.
	inputRules map[string][]string
	// clockRules :: reference of a rule → its value as a function of the clock, such
	// as `now := time.now_ns() / 1000000000`.
	clockRules map[string]clockForm
	// Builtins are the instrumented built-ins that stand in for others.
	Builtins instrument.Builtins
	// definitions :: reference of a rule → how many rules have it. It spares looking
	// for the rules that are alone among the many that are not.
	definitions map[string]int
	// mocked says that a built-in for which one of ours may stand in may be replaced by
	// another, and replaced that any may be.
	mocked, replaced bool
}

// unit is a rule with its else branches. Variables are known by name within it: the
// compiler makes the names of local variables unique.
type unit struct {
	// aliases are the variables that stand for a path of the input.
	aliases map[ast.Var]alias
	// dependsOnClock says that the clock reaches something that it must not.
	dependsOnClock bool
}

// alias is a variable that an expression sets to a path of the input.
type alias struct {
	path []string
	expr *ast.Expr
}

// alias returns the path that a variable stands for. A path that is not nil may be
// empty: the input as a whole.
func (u *unit) alias(v ast.Var) ([]string, bool) {
	a, ok := u.aliases[v]
	return a.path, ok
}

// Analyse looks at all rules and puts instrumented built-ins in the place of those that read
// the clock, where that is sound for evaluations from the references. If opaque is set,
// nothing is known of any rule.
func Analyse(compiler *ast.Compiler, from []ast.Ref, opaque bool) *Analysis {
	a := &Analysis{
		compiler: compiler, units: make(map[*ast.Rule]*unit),
		inputRules: make(map[string][]string), clockRules: make(map[string]clockForm),
		definitions: make(map[string]int), mocked: true,
	}
	var rules []*ast.Rule
	for _, module := range compiler.Modules {
		rules = append(rules, module.Rules...)
	}
	if opaque {
		return a
	}
	for _, rule := range rules {
		a.definitions[rule.Ref().String()]++
	}
	for _, rule := range rules {
		a.units[rule] = &unit{aliases: aliasesOf(rule)}
		a.findInputRule(rule)
	}
	a.findClockRules(rules)
	a.mocked = a.mocks(from)
	for _, rule := range rules {
		a.clock(rule)
	}
	return a
}

// RulesAt returns the rules that a reference may touch.
func (a *Analysis) RulesAt(ref ast.Ref) []*ast.Rule {
	return a.compiler.GetRulesDynamicWithOpts(ref, ast.RulesOptions{IncludeHiddenModules: true})
}

// alone reports whether a rule is the only one at its reference: a complete rule with
// one definition, no arguments and no else. Only then its reference stands for its
// value, and for nothing else.
func (a *Analysis) alone(rule *ast.Rule) bool {
	head, ref := rule.Head, rule.Ref()
	return !rule.Default && rule.Else == nil && a.definitions[ref.String()] == 1 &&
		len(head.Args) == 0 && head.Key == nil && head.RuleKind() == ast.SingleValue &&
		ref.IsGround() && len(a.RulesAt(ref)) == 1
}

// findInputRule notes a rule whose only expression sets its value to a path of the
// input.
func (a *Analysis) findInputRule(rule *ast.Rule) {
	if !a.alone(rule) || len(rule.Body) != 1 {
		return
	}
	value, ok := rule.Head.Value.Value.(ast.Var)
	if !ok {
		return
	}
	if path, ok := a.units[rule].alias(value); ok {
		a.inputRules[rule.Ref().String()] = path
	}
}

// inputRule returns the path that a reference to an input rule stands for, and how
// many terms of the reference are the rule's own; nil if it is no such reference.
func (a *Analysis) inputRule(ref ast.Ref) ([]string, int) {
	if len(a.inputRules) == 0 {
		return nil, 0
	}
	for n := 2; n <= len(ref); n++ {
		if path, ok := a.inputRules[ref[:n].String()]; ok && ref[:n].IsGround() {
			return path, n
		}
	}
	return nil, 0
}

// aliasesOf finds the local variables that are set to a path of the input, once. A
// variable that two expressions set may be either, and is none.
func aliasesOf(rule *ast.Rule) map[ast.Var]alias {
	out := make(map[ast.Var]alias)
	twice := make(map[ast.Var]bool)
	eachExpr(rule, func(e *ast.Expr) {
		v, path, ok := aliasIn(e)
		if !ok {
			return
		}
		if _, known := out[v]; known {
			twice[v] = true
		}
		out[v] = alias{path, e}
	})
	for v := range twice {
		delete(out, v)
	}
	return out
}

// aliasIn recognises `local = input.a.b`. Either side may be the variable: the compiler
// turns expressions around.
func aliasIn(e *ast.Expr) (ast.Var, []string, bool) {
	if !e.IsEquality() || e.Negated || len(e.With) > 0 {
		return "", nil, false
	}
	for i := range 2 {
		v, ok := e.Operand(i).Value.(ast.Var)
		if !ok || !isLocal(v) {
			continue
		}
		if path, ok := groundInput(e.Operand(1 - i)); ok {
			return v, path, true
		}
	}
	return "", nil, false
}

// isLocal reports whether a variable was named by the compiler, uniquely.
func isLocal(v ast.Var) bool { return strings.HasPrefix(string(v), ast.LocalVarPrefix) }

// groundInput returns the path of a reference into the input by names alone.
func groundInput(t *ast.Term) ([]string, bool) {
	ref, ok := t.Value.(ast.Ref)
	if !ok || !ref[0].Equal(ast.InputRootDocument) {
		return nil, false
	}
	path := []string{}
	for _, t := range ref[1:] {
		name, ok := t.Value.(ast.String)
		if !ok {
			return nil, false
		}
		path = append(path, string(name))
	}
	return path, true
}

// eachExpr calls f for every expression of a rule, its else branches and all that is
// nested in them.
func eachExpr(rule *ast.Rule, f func(*ast.Expr)) {
	visitor := ast.NewGenericVisitor(func(x any) bool {
		if e, ok := x.(*ast.Expr); ok {
			f(e)
		}
		return false
	})
	for r := rule; r != nil; r = r.Else {
		visitor.Walk(r.Head)
		visitor.Walk(r.Head.Reference)
		visitor.Walk(r.Body)
	}
}

// Package dependencies finds out what the value of a rule depends on: what of its input
// it reads, and whether it is a function of that.
//
// It walks compiled modules, once, before they are evaluated. A rule reaches other rules,
// paths of the input and built-ins. From these follow its read set ([Reads]), whether its
// value may be cached for inputs that are equal in what is read, and whether it is
// deterministic. Of a value that is only compared with constants, taken apart or given to
// some built-ins, the read set has what is observed, and inputs in which the same is
// observed ([Observed]) are equal to the rule. Where the clock reaches nothing but comparisons, these are instrumented:
// an evaluation then notes how long its value is valid. The analysis errs on one side:
// what it does not understand is read whole and not cached.
package dependencies

import (
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
	// data is the data of the policy, and looks how many values were looked at in it.
	data  ast.Value
	looks int
	// inputRules :: reference of a rule → what of the input its value is, such as
	// `http := input.attributes.request.http`.
	inputRules map[string]inputRule
	// clockRules :: reference of a rule → its value as a function of the clock, such
	// as `now := time.now_ns() / 1000000000`.
	clockRules map[string]clockForm
	// clocked :: instrumented comparison → what it compares.
	clocked map[*ast.Expr]clocked
	// Builtins are the instrumented built-ins that stand in for others.
	Builtins instrument.Builtins
	// definitions :: reference of a rule → how many rules have it. It spares looking
	// for the rules that are alone among the many that are not.
	definitions map[string]int
	// mocked says that a built-in for which one of ours may stand in may be replaced by
	// another, and replaced that any may be.
	mocked, replaced bool
}

// Analyse looks at all rules and puts instrumented built-ins in the place of those that read
// the clock, where that is sound for evaluations from the references. The data are those
// of the policy. If opaque is set, nothing is known of any rule.
func Analyse(compiler *ast.Compiler, data ast.Value, from []ast.Ref, opaque bool) *Analysis {
	a := &Analysis{
		compiler: compiler, data: data, units: make(map[*ast.Rule]*unit),
		inputRules: make(map[string]inputRule), clockRules: make(map[string]clockForm),
		clocked: make(map[*ast.Expr]clocked), definitions: make(map[string]int), mocked: true,
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
	a.findUnits(rules)
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

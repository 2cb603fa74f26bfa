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
// It looks at compiled modules, which are what is evaluated. Mostly expressions are simple there:
// calls are not nested, and references are complete. What it takes for granted about that, and about
// the evaluation, is listed in README.md with the test that holds it.
type Analysis struct {
	compiler *ast.Compiler
	// opaque says that nothing is known of any rule.
	opaque bool
	// units :: rule → what is known of its variables, found out when it is first asked for.
	units map[*ast.Rule]*unit
	// rules :: reference → the rule that has it; nil if several have.
	rules map[string]*ast.Rule
	// data is the data of the policy, and looks how many values were looked at in it.
	data  ast.Value
	looks int
	// Builtins are the instrumented built-ins that stand in for others.
	Builtins instrument.Builtins
	// mocked says that a built-in for which one of ours may stand in may be replaced by
	// another, and replaced that any may be.
	mocked, replaced bool
}

// Analyse looks at all rules and puts instrumented built-ins in the place of those that read
// the clock, where that is sound for evaluations from the references. The data are those
// of the policy. If opaque is set, nothing is known of any rule.
func Analyse(compiler *ast.Compiler, data ast.Value, from []ast.Ref, opaque bool) *Analysis {
	a := &Analysis{
		compiler: compiler, opaque: opaque, data: data, mocked: opaque,
		units: make(map[*ast.Rule]*unit), rules: make(map[string]*ast.Rule),
	}
	if opaque {
		return a
	}
	for _, module := range compiler.Modules {
		for _, rule := range module.Rules {
			name := rule.Ref().String()
			if _, taken := a.rules[name]; taken {
				rule = nil
			}
			a.rules[name] = rule
		}
	}
	for _, ref := range from {
		a.Of(ref) // for the modifiers on the way
	}
	a.looks = 0
	if a.mocked {
		return a
	}
	for _, module := range compiler.Modules {
		for _, rule := range module.Rules {
			ast.WalkExprs(rule, func(e *ast.Expr) bool {
				a.Builtins.CacheToken(e)
				a.compareClock(a.unit(rule), e)
				return false
			})
		}
	}
	return a
}

// RulesAt returns the rules that a reference may touch.
func (a *Analysis) RulesAt(ref ast.Ref) []*ast.Rule {
	return a.compiler.GetRulesDynamicWithOpts(ref, ast.RulesOptions{IncludeHiddenModules: true})
}

// ruleOf returns the rule whose value a reference stands for, and nothing else: the only one at
// its reference, complete, with one definition, no arguments and no else. It is nil if there is none.
func (a *Analysis) ruleOf(ref ast.Ref) *ast.Rule {
	rule := a.rules[ref.String()]
	if rule == nil || rule.Default || rule.Else != nil || len(rule.Head.Args) > 0 || rule.Head.Key != nil ||
		rule.Head.RuleKind() != ast.SingleValue || !rule.Ref().IsGround() || len(a.RulesAt(ref)) != 1 {
		return nil
	}
	return rule
}

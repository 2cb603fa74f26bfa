package rego

import (
	"slices"

	"understudy/rego/evaluator"
)

// Cause is a place of a module that explains what decisions cost.
type Cause = evaluator.Cause

// CauseKind is what a place does to the cost.
type CauseKind = evaluator.CauseKind

// The kinds of causes. Package evaluator says what those mean at which something is learned of a request.
const (
	CauseWhole      = evaluator.Whole
	CauseElements   = evaluator.Elements
	CauseAsked      = evaluator.Asked
	CauseClockAsked = evaluator.ClockAsked
	CauseClockWhole = evaluator.ClockWhole
	CauseRead       = evaluator.Read
	CauseImpure     = evaluator.Impure
	// CauseInterpreted is that of forms that are left to OPA.
	CauseInterpreted = evaluator.Interpreted
)

// Causes returns the places that explain what evaluations of the rule at path, one of Source.Paths, cost: where
// they ask or force what of a request; or, if they are OPA's, the forms for which they are.
func (p *Program) Causes(path string) []Cause {
	q := p.queries[path]
	if q.compiled != nil {
		return q.compiled.Causes()
	}
	return slices.SortedFunc(slices.Values(q.unsupported), Cause.Compare)
}

// Interpreted returns the forms for which the rule at path, one of Source.Paths, is evaluated by
// OPA's interpreter alone, which takes several times as long: the rule can reach them, and our evaluator
// does not know them. There are none if it is evaluated by ours.
func (p *Program) Interpreted(path string) []Cause {
	out := slices.Clone(p.queries[path].unsupported)
	for i, c := range out {
		if c.Kind == CauseImpure {
			out[i].Kind, out[i].What = CauseInterpreted, "the built-in "+c.What+", which may have another result for the same operands,"
		}
	}
	return out
}

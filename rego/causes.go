package rego

import (
	"cmp"
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
	// CauseImpure means: a built-in has a value of its own at each call, so OPA's interpreter evaluates the path
	// and no decision is cached.
	CauseImpure CauseKind = "impure"
	// CauseInterpreted means: the rule has a form that our evaluator does not know, so that OPA's
	// interpreter evaluates the path, which takes several times as long, and no decision is cached.
	CauseInterpreted CauseKind = "interpreted"
)

// Causes returns the places that explain what evaluations of the rule at path, one of Source.Paths, cost: where
// they ask or force what of a request; or, if they are OPA's, the forms for which they are.
func (p *Program) Causes(path string) []Cause {
	q := p.queries[path]
	if q.compiled != nil {
		return q.compiled.Causes()
	}
	out := p.Interpreted(path)
	for i, u := range q.unsupported {
		if u.Impure != "" {
			out[i].Kind, out[i].What = CauseImpure, u.Impure
		}
	}
	slices.SortFunc(out, func(x, y Cause) int { return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Row, y.Row)) })
	return out
}

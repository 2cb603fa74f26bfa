package rego

import (
	"context"
	"slices"

	"understudy/rego/evaluator"
	"understudy/rego/opaque"
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
	CauseNumbers    = evaluator.Numbers
	CauseLeft       = evaluator.Left
	CauseImpure     = evaluator.Impure
	// CauseInterpreted is that of forms that are left to OPA.
	CauseInterpreted = evaluator.Interpreted
)

// MostAsked is how many questions an evaluation asks of a request; what would be a further one is asked for whole.
const MostAsked = opaque.MostAsked

// Causes returns the places that explain what evaluations of the rule at path, one of Source.Paths, cost: where
// they ask or force what of a request, and the forms for which they are left to OPA.
func (p *Program) Causes(path string) []Cause {
	q := p.queries[path]
	out := slices.Clone(q.unsupported)
	if q.compiled != nil {
		out = append(out, p.explained(q).Causes()...)
	}
	slices.SortStableFunc(out, Cause.Compare)
	return out
}

// explained returns the compiled form of a query with its causes: if the program is packed, one that is made for this.
func (p *Program) explained(q query) *evaluator.Query {
	if !p.interpreter.packed {
		return q.compiled
	}
	ctx := context.Background()
	compiler, err := p.interpreter.get(ctx)
	if err != nil {
		return q.compiled
	}
	c, err := p.newCompiler(ctx, compiler)
	if err != nil {
		return q.compiled
	}
	compiled, _ := c.Compile(q.ref)
	return compiled
}

// Interpreted returns the forms that our evaluator does not know, and that the rule at path, one of Source.Paths,
// can reach. An evaluation that comes to one is left to OPA's interpreter, which takes several times as long.
func (p *Program) Interpreted(path string) []Cause {
	out := slices.Clone(p.queries[path].unsupported)
	for i, c := range out {
		if c.Kind == CauseImpure {
			out[i].Kind, out[i].What = CauseInterpreted, "the built-in "+c.What+", which may have another result for the same operands,"
		}
	}
	return out
}

package rego

import "context"

// Cause is a place of a module that explains what decisions cost.
type Cause struct {
	Kind CauseKind
	// What is the form, the path or the text that the place has.
	What string
	File string
	// Row is the line, from 1.
	Row int
}

// CauseKind is what a place does to the cost.
type CauseKind string

// CauseInterpreted means: the rule has a form that our evaluator does not know, so that OPA's
// interpreter evaluates the path, which takes several times as long.
const CauseInterpreted CauseKind = "interpreted"

// Causes is being replaced.
func Causes(ctx context.Context, source Source) ([]Cause, error) { return nil, ctx.Err() }

const (
	CauseImpure        CauseKind = "impure"
	CauseClockUsed     CauseKind = "clock_used"
	CauseNotUnderstood CauseKind = "not_understood"
	CauseWhole         CauseKind = "whole"
	CauseClockBound    CauseKind = "clock_bound"
	CauseCompared      CauseKind = "compared"
)

package rego

import (
	"context"
	"maps"
	"slices"

	"understudy/rego/compile"
	"understudy/rego/dependencies"
)

// Cause is a place of a module that explains what decisions cost.
type Cause = dependencies.Cause

// CauseKind is what a place does to the cost.
type CauseKind = dependencies.CauseKind

// The kinds of causes; package dependencies says what they mean.
const (
	CauseWhole         = dependencies.Whole
	CauseCompared      = dependencies.Compared
	CauseClockBound    = dependencies.ClockBound
	CauseClockUsed     = dependencies.ClockUsed
	CauseImpure        = dependencies.Impure
	CauseNotUnderstood = dependencies.NotUnderstood
	// CauseInterpreted means: the rule has a form that our evaluator does not know, so that OPA's
	// interpreter evaluates the path, which takes several times as long.
	CauseInterpreted CauseKind = "interpreted"
)

// Causes returns the places of the modules that explain what evaluations of the source's
// Paths cost: what of the input they read and how, and what keeps them from being cached or
// bounds for how long. It compiles the source anew, off the request path. The error is that
// of [Compile].
func Causes(ctx context.Context, source Source) ([]Cause, error) {
	p, err := load(ctx, source)
	if err != nil {
		return nil, err
	}
	known, refs, err := p.analyse(ctx, source)
	if err != nil {
		return nil, err
	}
	var out []Cause
	for _, path := range slices.Sorted(maps.Keys(refs)) {
		if ctx.Err() != nil {
			return nil, compile.Ended(ctx)
		}
		for _, cause := range known.Causes(refs[path]) {
			if !slices.Contains(out, cause) {
				out = append(out, cause)
			}
		}
	}
	return out, nil
}

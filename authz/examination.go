package authz

import (
	"context"

	"understudy/rego/explain"
)

// Trace evaluates the Rego rule at path, one that the chain asks, and returns what happened
// to the rules on the way. It is for explanations, off the request path: it takes several
// times as long as a decision. The chain's other rules are not asked. reading bounds what
// reading the request may cost; nil does not. The error is that of reading the request or of
// the evaluation, and quotes neither.
func (p *Policy) Trace(ctx context.Context, reading *ReadBudget, r *Request, path string) (explain.Trace, error) {
	if p.program == nil {
		return explain.Trace{}, nil
	}
	input, err := r.inputFor(reading, p.required)
	if err != nil {
		return explain.Trace{}, err
	}
	return p.program.Trace(ctx, path, input, r.Time)
}

package rego

import (
	"context"
	"time"

	"understudy/rego/explain"
)

// Trace evaluates the rule at path as [Program.Interpret] does, and returns what happened to
// the rules on the way, whatever its value is. That takes several times as long: it is for
// explanations off the request path. A path that the program does not have gives an empty
// trace. The error is that of ctx, or an *EvalError.
func (p *Program) Trace(ctx context.Context, path string, input Input, now time.Time) (explain.Trace, error) {
	q, ok := p.queries[path]
	if !ok {
		return explain.Trace{}, nil
	}
	tracer := explain.NewTracer()
	if _, err := p.run(ctx, q, input, now, tracer); err != nil {
		return explain.Trace{}, err
	}
	compiler, err := p.interpreter.get(ctx)
	if err != nil {
		return explain.Trace{}, err
	}
	return tracer.Trace(compiler, q.ref), nil
}

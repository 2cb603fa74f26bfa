package rego

import (
	"context"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego/compile"
	"understudy/rego/coverage"
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
	// Without the index of rules, one whose first condition fails is begun as well, and it is
	// seen which condition that is.
	if _, err := p.watch(ctx, path, q.body, input, now, tracer); err != nil {
		return explain.Trace{}, err
	}
	return tracer.Trace(p.compiler, q.ref), nil
}

// Cover evaluates the rule at path as [Program.Trace] does, and returns its value. What
// happens to targets on the way is noted on the tracer, which may watch several paths.
func (p *Program) Cover(ctx context.Context, path string, input Input, now time.Time, tracer *coverage.Tracer) (Result, error) {
	q, ok := p.queries[path]
	if !ok {
		return Result{}, nil
	}
	found, err := p.watch(ctx, path, q.body, input, now, tracer)
	tracer.End(err != nil)
	if err != nil {
		return Result{}, err
	}
	return resultOf(path, found)
}

// watch evaluates a query with a tracer and without indexes.
func (p *Program) watch(
	ctx context.Context, path string, body ast.Body, input Input, now time.Time, tracer topdown.QueryTracer,
) (found *ast.Term, err error) {
	if ctx.Err() != nil {
		return nil, compile.Ended(ctx)
	}
	err = p.equip(topdown.NewQuery(body), input, now, newCancel(ctx)).WithIndexing(false).WithQueryTracer(tracer).
		Iter(ctx, func(result topdown.QueryResult) error {
			found = result[value]
			return nil
		})
	if err != nil {
		return nil, failed(ctx, path, err)
	}
	return found, nil
}

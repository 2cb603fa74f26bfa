package rego

import (
	"context"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/change"
	"understudy/rego/compile"
)

// Judge evaluates one side of a comparison to find out what requests show of its items: by OPA alone, with
// what the other side has in place of some. It is used by one goroutine at a time.
type Judge struct {
	program *Program
	overlay *change.Overlay
	watch   *change.Watch
}

// NewJudge returns a judge for the half of a comparison that the program is. Nothing is compiled but the
// modules of literals. The error is that of ctx.
func (p *Program) NewJudge(ctx context.Context, half *change.Half) (*Judge, error) {
	of := *p
	if half.Modules != nil {
		compiled, err := p.withModules(ctx, half.Modules)
		if ctx.Err() != nil {
			return nil, compile.Ended(ctx)
		}
		if err == nil {
			of = *compiled
		}
		// Otherwise no literal makes a difference, and none is ever seen.
	}
	overlay := change.NewOverlay(p.store, half)
	of.store = overlay
	return &Judge{program: &of, overlay: overlay, watch: change.NewWatch(half.Targets)}, nil
}

// withModules returns the program with other modules, for evaluations by OPA alone.
func (p *Program) withModules(ctx context.Context, modules map[string]*ast.Module) (*Program, error) {
	compiler, err := recompiled(ctx, modules)
	if err != nil {
		return nil, err
	}
	out := &Program{interpreter: interpreterOf(compiler, nil), store: p.store, txn: p.txn, queries: make(map[string]query, len(p.queries))}
	for path, q := range p.queries {
		out.queries[path] = query{path: path, body: q.body, ref: q.ref, reach: q.reach}
	}
	return out, nil
}

// Take puts what the other side has in place of items, and of no others.
func (j *Judge) Take(items []int) { j.overlay.Take(items) }

// Eval is [Program.Interpret] with what is taken.
func (j *Judge) Eval(ctx context.Context, path string, input Input, now time.Time) (Result, error) {
	return j.program.Interpret(ctx, path, input, now)
}

// NewTracer returns a tracer for one request, which may be evaluated at several paths.
func (j *Judge) NewTracer() *change.Tracer { return j.watch.NewTracer() }

// Watch is Eval with a tracer. It takes several times as long.
func (j *Judge) Watch(ctx context.Context, path string, input Input, now time.Time, tracer *change.Tracer) (Result, error) {
	q, ok := j.program.queries[path]
	if !ok {
		return Result{}, nil
	}
	found, err := j.program.run(ctx, q, input, now, tracer)
	tracer.End(err != nil)
	if err != nil {
		return Result{}, err
	}
	return resultOf(path, found)
}

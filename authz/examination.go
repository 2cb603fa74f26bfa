package authz

import (
	"context"
	"errors"
	"fmt"

	adminpb "understudy/admin/v1"
	"understudy/rego"
	"understudy/rego/coverage"
	"understudy/rego/explain"
)

// Changes returns the Rego rules that only one of two policies has, and the data in which
// they differ. The error is that of ctx or of a module that does not parse. It never panics.
func Changes(ctx context.Context, live, candidate *adminpb.Policy) (out coverage.Changes, err error) {
	defer func() {
		if recover() != nil {
			out, err = coverage.Changes{}, fmt.Errorf("comparing the policies panicked")
		}
	}()
	return coverage.Diff(ctx, sourceOf(live), sourceOf(candidate))
}

func sourceOf(p *adminpb.Policy) coverage.Source {
	return coverage.Source{Modules: p.GetModules(), Data: rego.FromStruct(p.GetData()), Paths: regoPaths(p.GetRules())}
}

// Cover evaluates the Rego rules of the chain, up to the first that denies, and has a tracer
// watch. Rules of other kinds are taken to pass, and one that fails denies. Like [Policy.Trace],
// it is for work off the request path; reading is as there. The error is that of reading the
// request, or of ctx.
func (p *Policy) Cover(ctx context.Context, reading *Reading, r *Request, tracer *coverage.Tracer) error {
	input, err := r.inputFor(reading, p.required)
	if err != nil {
		return err
	}
	for _, rule := range p.rules {
		f, ok := rule.filter.(regoFilter)
		if !ok {
			continue
		}
		result, err := p.program.Cover(ctx, f.path, input, r.Time, tracer)
		if failure := (*rego.EvalError)(nil); errors.As(err, &failure) {
			return nil // it would fail again, and is a denial
		}
		if err != nil {
			return err
		}
		if f.decision(result, nil, nil).Verdict == Deny {
			return nil
		}
	}
	return nil
}

// Trace evaluates the Rego rule at path, one that the chain asks, and returns what happened
// to the rules on the way. It is for explanations, off the request path: it takes several
// times as long as a decision. The chain's other rules are not asked. reading bounds what
// reading the request may cost; nil does not. The error is that of reading the request or of
// the evaluation, and quotes neither.
func (p *Policy) Trace(ctx context.Context, reading *Reading, r *Request, path string) (explain.Trace, error) {
	if p.program == nil {
		return explain.Trace{}, nil
	}
	input, err := r.inputFor(reading, p.required)
	if err != nil {
		return explain.Trace{}, err
	}
	return p.program.Trace(ctx, path, input, r.Time)
}

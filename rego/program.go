package rego

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-policy-agent/opa/v1/metrics"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// Program is a compiled Source. It is immutable and safe for concurrent use.
type Program struct {
	// queries :: path → the prepared query of the rule.
	queries map[string]oparego.PreparedEvalQuery
}

// Result is the value of a rule.
type Result struct {
	// Defined is false if the rule has no value for this input.
	Defined bool
	// Value is in the types of encoding/json; numbers are json.Number.
	Value any
}

// Eval asks the rule at path, one of Source.Paths, for its value. All built-ins
// see the clock stand at now. An evaluation stops soon after ctx is done, with
// the error of ctx. An error of a built-in makes the expression undefined, as Rego
// has it; other errors, such as two values for one rule, are returned as an
// *EvalError.
func (p *Program) Eval(ctx context.Context, path string, input Input, now time.Time) (Result, error) {
	query, ok := p.queries[path]
	if !ok {
		return Result{}, fmt.Errorf("evaluating %s: it is not one of the program's paths", path)
	}
	if ctx.Err() != nil {
		return Result{}, ended(ctx)
	}
	cancel := topdown.NewCancel()
	// Without an external cancel OPA would start a goroutine for each evaluation.
	stop := context.AfterFunc(ctx, cancel.Cancel)
	defer stop()
	results, err := query.Eval(ctx,
		oparego.EvalParsedInput(input.value),
		oparego.EvalTime(now),
		oparego.EvalMetrics(metrics.NoOp()),
		oparego.EvalExternalCancel(cancel),
	)
	switch {
	case topdown.IsCancel(err) && ctx.Err() != nil:
		return Result{}, ended(ctx)
	case err != nil:
		return Result{}, evalError(path, err)
	case len(results) == 0:
		return Result{}, nil
	}
	return Result{Defined: true, Value: results[0].Expressions[0].Value}, nil
}

// ended returns why ctx is done: its error, and its cause if it has another.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

package authz

import (
	"cmp"
	"context"
	"errors"

	adminpb "understudy/admin/v1"
	"understudy/rego"
)

// defaultRegoPath is the rule that a Rego filter asks if it names none. It is that
// of opa-envoy-plugin, whose policies run here unchanged.
const defaultRegoPath = "envoy/authz/allow"

// regoFilter asks one rule of the policy's modules.
type regoFilter struct {
	program *rego.Program
	path    string
}

func newRegoFilter(program *rego.Program, r *adminpb.PolicyRule) filter {
	return regoFilter{program, regoPath(r.GetRego())}
}

func regoPath(f *adminpb.RegoFilter) string {
	if p := f.GetPath(); p != "" {
		return p
	}
	return defaultRegoPath
}

// rulePath returns the path of a Rego rule; empty for a rule of another kind.
func rulePath(r *adminpb.PolicyRule) string {
	if r.GetRego() == nil {
		return ""
	}
	return regoPath(r.GetRego())
}

// regoPaths returns the rules that a chain asks.
func regoPaths(rules []*adminpb.PolicyRule) []string {
	var out []string
	for _, r := range rules {
		if f := r.GetRego(); f != nil {
			out = append(out, regoPath(f))
		}
	}
	return out
}

func (f regoFilter) mayRead(place ...string) bool { return f.program.MayRead(f.path, place...) }

func (f regoFilter) deterministic() bool { return f.program.Deterministic(f.path) }

func (f regoFilter) check(ctx context.Context, q evaluation) Decision {
	if err := q.enter(); err != nil {
		return f.decision(rego.Result{}, err, q.slot)
	}
	if q.asks != nil {
		result, err := f.ask(ctx, q)
		if unreadable, ok := errors.AsType[*rego.SourceError](err); ok {
			return Unreadable(unreadable.Err)
		}
		if !errors.Is(err, rego.ErrUndecided) {
			return f.decision(result, err, q.slot)
		}
	}
	document, err := f.document(q)
	if err != nil {
		return Unreadable(err)
	}
	eval := f.program.Eval
	if q.Plain || q.asks != nil {
		eval = f.program.Interpret
	}
	result, err := eval(ctx, f.path, document, q.request.Time)
	return f.decision(result, err, q.slot)
}

// document returns the whole input, without what is read of the body as far as no rule reads that.
func (f regoFilter) document(q evaluation) (rego.Input, error) {
	if q.unreadable != nil {
		return rego.Input{}, q.unreadable
	}
	if q.asks == nil {
		return q.input(q.Reading)
	}
	return q.request.inputFor(q.Reading, q.required)
}

// ask evaluates the rule by what it asks the request.
func (f regoFilter) ask(ctx context.Context, q evaluation) (rego.Result, error) {
	q.asks.Under(ctx)
	for _, place := range q.required {
		if err := q.asks.Require(place); err != nil {
			return rego.Result{}, err
		}
	}
	return q.asks.Eval(f.path)
}

func (f regoFilter) recordable() bool { return f.program.Evaluates(f.path) }

// decision reads the outcome of an evaluation.
func (f regoFilter) decision(result rego.Result, err error, p Slot) Decision {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, rego.ErrStopped):
		return timedOut(p)
	case errors.Is(err, context.Canceled):
		return Failed(FailureCanceled, reasonCanceled)
	case err != nil:
		return Failed(FailureError, "The evaluation failed: "+err.Error()).WithTimed(true) // nobody knows
	case !result.Defined:
		return Failed(FailureUndefined, "The rule "+f.path+" is undefined for this request.").WithTimed(result.Timed)
	}
	d := parseResult(result.Value)
	d.Value, d.timed = result.Value, result.Timed
	return d
}

// reasonCanceled is the reason of FailureCanceled.
const reasonCanceled = "The caller left before there was a decision."

// badRequest is the denial of a request that has no input document.
func badRequest(err error) Decision {
	d := Failed(FailureRequest, "The request cannot be read.")
	d.HTTPStatus = 400
	var bad *BadRequest
	if errors.As(err, &bad) {
		d.Reason, d.Failure = bad.Reason, cmp.Or(bad.Failure, FailureRequest)
	}
	return d
}

// Failed is the denial of a request that the policy could not decide.
func Failed(why Failure, reason string) Decision {
	return Decision{Effect: Deny, Failure: why, Reason: reason}
}

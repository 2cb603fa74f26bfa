package rego

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego/bounds"
	"understudy/rego/compile"
	"understudy/rego/dependencies"
	"understudy/rego/evaluator"
	"understudy/rego/instrument"
	"understudy/rego/opaque"
)

// Program is a compiled Source. It is immutable and safe for concurrent use: every
// evaluation has its own query, and shares compiled modules, data and one read
// transaction.
type Program struct {
	compiler *ast.Compiler
	store    storage.Store
	txn      storage.Transaction
	// builtins :: name → the instrumented built-ins that stand in the modules.
	builtins map[string]*topdown.Builtin
	// queries :: path → how it is evaluated.
	queries map[string]query
	// vocabulary has what evaluations of the program can ask a request.
	vocabulary *opaque.Vocabulary
}

// query is what is evaluated for a path.
type query struct {
	// body is `value = data.a.b`, made once: parsing it would cost more than evaluating
	// it.
	body ast.Body
	ref  ast.Ref
	// dependencies are what its value depends on.
	dependencies dependencies.Dependencies
	// compiled evaluates it; nil if it can reach forms that the evaluator does not know, which
	// are unsupported.
	compiled    *evaluator.Query
	unsupported []*evaluator.Unsupported
}

// value is the variable of a query that gets the rule's value.
const value = ast.Var("value")

func newQuery(ref ast.Ref, known *dependencies.Analysis) query {
	return query{
		body:         ast.NewBody(ast.Equality.Expr(ast.NewTerm(value), ast.NewTerm(ref))),
		ref:          ref,
		dependencies: known.Of(ref),
	}
}

// Forever is the ValidUntil of a value that changes only with the input.
var Forever = time.Unix(0, instrument.Forever)

// Result is the value of a rule.
type Result struct {
	// Defined is false if the rule has no value for this input.
	Defined bool
	// Value is in the types of encoding/json; numbers are json.Number.
	Value any
	// ValidUntil is the moment up to which the rule has this value for all inputs that are
	// equal in what Reads names. It is not after the evaluation's own moment if
	// nothing is known of that.
	ValidUntil time.Time
}

// Reads returns what the rule at path, one of Source.Paths, can read of its input. An
// input that lacks everything else gives the same value. It is the whole input for a
// path that the program does not have, the safe answer.
func (p *Program) Reads(path string) *Reads {
	if q, ok := p.queries[path]; ok {
		return q.dependencies.Reads
	}
	return ReadsEverything
}

// Cacheable reports whether the rule at path, one of Source.Paths, has the same value
// for inputs that are equal in what Reads names, up to the ValidUntil of its [Result].
func (p *Program) Cacheable(path string) bool { return p.queries[path].dependencies.Cacheable }

// Deterministic reports whether the rule at path, one of Source.Paths, always has the
// same value for the same input at the same moment. It may say no too often. Only such
// rules can be verified by a second evaluation.
func (p *Program) Deterministic(path string) bool { return p.queries[path].dependencies.Deterministic }

// Interpreted returns the forms for which the rule at path, one of Source.Paths, is evaluated by
// OPA's interpreter alone, which takes several times as long: the rule can reach them, and our evaluator
// does not know them. There are none if it is evaluated by ours.
func (p *Program) Interpreted(path string) (out []Cause) {
	for _, u := range p.queries[path].unsupported {
		out = append(out, Cause{Kind: CauseInterpreted, What: u.Form, File: u.File, Row: u.Row})
	}
	return out
}

// Evaluates reports whether the rule at path, one of Source.Paths, is evaluated by our evaluator.
func (p *Program) Evaluates(path string) bool { return p.queries[path].compiled != nil }

// Has reports whether the rule at path can be evaluated: it is one of Source.Paths, or
// one of Source.Optional that is there.
func (p *Program) Has(path string) bool {
	_, ok := p.queries[path]
	return ok
}

// Eval evaluates the rule at path, one that the program has. All built-ins
// see the clock stand at now. An evaluation stops soon after ctx is done, with
// the error of ctx. An error of a built-in makes the expression undefined, as Rego
// has it; other errors, such as two values for one rule or a call that package bounds
// does not allow, are returned as an
// *EvalError.
func (p *Program) Eval(ctx context.Context, path string, input Input, now time.Time) (Result, error) {
	a := p.AskDocument(ctx, input, now, false)
	defer a.End()
	result, err := a.Eval(path)
	if !errors.Is(err, ErrUndecided) {
		return result, err
	}
	return p.Interpret(ctx, path, input, now)
}

// Interpret is Eval by OPA, whatever the evaluator knows.
func (p *Program) Interpret(ctx context.Context, path string, input Input, now time.Time) (Result, error) {
	at := now.UnixNano()
	v := &instrument.Validity{Context: ctx, Now: at, Until: p.validAt(path, at)}
	result, err := p.eval(v, path, input, now)
	if err != nil {
		return Result{}, err
	}
	result.ValidUntil = time.Unix(0, v.Until)
	return result, nil
}

func stopped(path string) error { return fmt.Errorf("evaluating %s: %w", path, ErrStopped) }

// validAt returns until when the value of a path is right before anything bounds it, in nanoseconds since 1970.
func (p *Program) validAt(path string, now int64) int64 {
	if p.Cacheable(path) {
		return instrument.Forever
	}
	return now
}

// EvalPlain is Eval as OPA alone does it, without the evaluator and without cached results
// about tokens. It is what samples of live decisions are verified by, and what
// tests compare with. The result is valid for the moment now only.
func (p *Program) EvalPlain(ctx context.Context, path string, input Input, now time.Time) (Result, error) {
	result, err := p.eval(ctx, path, input, now)
	if err != nil {
		return Result{}, err
	}
	result.ValidUntil = now
	return result, nil
}

// eval leaves ValidUntil to its callers.
func (p *Program) eval(ctx context.Context, path string, input Input, now time.Time) (result Result, err error) {
	q, ok := p.queries[path]
	if !ok {
		return result, fmt.Errorf("evaluating %s: it is not one of the program's paths", path)
	}
	if ctx.Err() != nil {
		return result, compile.Ended(ctx)
	}
	found, err := p.evaluate(ctx, q.body, input, now, newCancel(ctx))
	if err != nil {
		return result, failed(ctx, path, err)
	}
	return resultOf(path, found)
}

// failed returns the error of an evaluation that ended with one of OPA's.
func failed(ctx context.Context, path string, err error) error {
	switch {
	case topdown.IsCancel(err) && ctx.Err() != nil:
		return compile.Ended(ctx)
	case topdown.IsCancel(err):
		return stopped(path)
	}
	return evalError(path, err)
}

// resultOf returns the result that a term is, without ValidUntil. Nil is undefined.
func resultOf(path string, found *ast.Term) (result Result, err error) {
	if found == nil {
		return result, nil
	}
	// Turning it into Go values would take several times its size in memory.
	if bounds.TooLarge(found) {
		return result, &EvalError{Path: path, Code: bounds.Code, Message: "the value is too large"}
	}
	result.Defined = true
	if result.Value, err = ast.JSON(found.Value); err != nil {
		return result, evalError(path, err)
	}
	return result, nil
}

// evaluate runs a query; the value is nil if it is undefined.
func (p *Program) evaluate(
	ctx context.Context, body ast.Body, input Input, now time.Time, cancel topdown.Cancel,
) (*ast.Term, error) {
	var found *ast.Term
	err := p.equip(topdown.NewQuery(body), input, now, cancel).Iter(ctx, func(result topdown.QueryResult) error {
		found = result[value]
		return nil
	})
	return found, err
}

// equip gives a query what an evaluation is made with. The caller makes the query, so that
// it is on its stack: one made here would be on the heap, for each evaluation.
func (p *Program) equip(q *topdown.Query, input Input, now time.Time, cancel topdown.Cancel) *topdown.Query {
	q = q.
		WithCompiler(p.compiler).
		WithStore(p.store).
		WithTransaction(p.txn).
		WithBuiltins(p.builtins).
		WithMetrics(metrics.NoOp()).
		WithTime(now).
		WithCancel(cancel)
	if input.value != nil {
		q = q.WithInput(ast.NewTerm(input.value))
	}
	return q
}

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
	"understudy/rego/evaluator"
	"understudy/rego/opaque"
)

// Program is a compiled Source. It is immutable and safe for concurrent use: every
// evaluation has its own query, and shares compiled modules, data and one read
// transaction.
type Program struct {
	interpreter *interpreter
	store       storage.Store
	txn         storage.Transaction
	// queries :: path → how it is evaluated.
	queries map[string]query
	// vocabulary has what evaluations of the program can ask a request.
	vocabulary *opaque.Vocabulary
}

// query is what is evaluated for a path.
type query struct {
	path string
	// body is `value = data.a.b`, made once: parsing it would cost more than evaluating
	// it.
	body ast.Body
	ref  ast.Ref
	// reach is what its evaluations can come to.
	reach *reach
	// compiled evaluates it; nil if the evaluator cannot begin to. Unsupported are the forms that it can reach and
	// does not know.
	compiled    *evaluator.Query
	unsupported []Cause
}

// value is the variable of a query that gets the rule's value.
const value = ast.Var("value")

func newQuery(path string, ref ast.Ref, compiler *ast.Compiler, c *evaluator.Compiler) query {
	q := query{
		path:  path,
		body:  ast.NewBody(ast.Equality.Expr(ast.NewTerm(value), ast.NewTerm(ref))),
		ref:   ref,
		reach: reachOf(compiler, ref),
	}
	q.compiled, q.unsupported = c.Compile(ref)
	return q
}

// SetAnswerCache sets how many bytes take at most the answers that look-ups cache of tokens. The default is none.
func (p *Program) SetAnswerCache(bytes uint64) { p.vocabulary.SetAnswerCache(bytes) }

// Result is the value of a rule.
type Result struct {
	// Defined is false if the rule has no value for this input.
	Defined bool
	// Value is in the types of encoding/json; numbers are json.Number.
	Value any
	// Timed says that the value may be another one at another time.
	Timed bool
}

// Deterministic reports whether the rule at path, one of Source.Paths, always has the
// same value for the same input at the same moment. It may say no too often. Only such
// rules can be verified by a second evaluation.
func (p *Program) Deterministic(path string) bool {
	q, ok := p.queries[path]
	return ok && !q.reach.random
}

// MayRead reports whether the rule at path, one of Source.Paths, may read something at, above or below a
// place of the input. It may say yes too often. It is yes for a path that the program does not have.
func (p *Program) MayRead(path string, place ...string) bool {
	q, ok := p.queries[path]
	return !ok || q.reach.mayRead(place)
}

// References returns the first place for each path of the input that the rule at path, one of Source.Paths, and
// those that it can come to name, by file and line. It is for messages: what is read through a local variable or
// as an argument of a function is found as far as it is named.
func (p *Program) References(path string) []Reference {
	if q, ok := p.queries[path]; ok {
		return q.reach.inputs
	}
	return nil
}

// Evaluates reports whether the rule at path, one of Source.Paths, is evaluated by our evaluator, as long as that
// comes to none of the forms of [Program.Interpreted].
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
	a := p.Ask(ctx, RequestOf(input), now, false)
	defer a.End()
	result, err := a.Eval(path)
	if !errors.Is(err, ErrUndecided) {
		return result, err
	}
	return p.Interpret(ctx, path, input, now)
}

// Interpret is Eval by OPA alone, whatever the evaluator knows. It is what samples of live decisions are
// verified by, and what tests compare with.
func (p *Program) Interpret(ctx context.Context, path string, input Input, now time.Time) (result Result, err error) {
	q, ok := p.queries[path]
	if !ok {
		return result, fmt.Errorf("evaluating %s: it is not one of the program's paths", path)
	}
	found, err := p.run(ctx, q, input, now, nil)
	if err != nil {
		return result, err
	}
	result, err = resultOf(path, found)
	result.Timed = q.reach.clock
	return result, err
}

func stopped(path string) error { return fmt.Errorf("evaluating %s: %w", path, ErrStopped) }

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

// resultOf returns the result that a term is, without Timed. Nil is undefined.
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

// run evaluates a query by OPA; the value is nil if it is undefined. A tracer sees all of it: without the index of
// rules, one whose first condition fails is begun as well.
func (p *Program) run(ctx context.Context, q query, input Input, now time.Time, tracer topdown.QueryTracer) (found *ast.Term, err error) {
	if ctx.Err() != nil {
		return nil, compile.Ended(ctx)
	}
	compiler, err := p.interpreter.get(ctx)
	if err != nil {
		return nil, err
	}
	run := topdown.NewQuery(q.body).
		WithCompiler(compiler).
		WithStore(p.store).
		WithTransaction(p.txn).
		WithMetrics(metrics.NoOp()).
		WithTime(now).
		WithCancel(newCancel(ctx))
	if input.value != nil {
		run = run.WithInput(ast.NewTerm(input.value))
	}
	if tracer != nil {
		run = run.WithIndexing(false).WithQueryTracer(tracer)
	}
	err = run.Iter(ctx, func(result topdown.QueryResult) error {
		found = result[value]
		return nil
	})
	if err != nil {
		return nil, failed(ctx, q.path, err)
	}
	return found, nil
}

package rego

import (
	"context"
	"errors"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego/compile"
	"understudy/rego/evaluator"
	"understudy/rego/opaque"
)

// Path is a constant path into the input.
type Path = opaque.Path

// What package opaque says of an evaluation.
type (
	// Question is something that an evaluation learns of a request.
	Question = opaque.Question
	// Answer is what it learned.
	Answer = opaque.Answer
	// Record is what an evaluation has learned of its request.
	Record = opaque.Record
	// Entry is a question with its answer.
	Entry = opaque.Entry
	// Place is a line of a policy.
	Place = opaque.Position
)

// NextNode returns the ID of what follows after an answer at a node: a keyed hash.
func NextNode(node, answer Answer) Answer { return opaque.Next(node, answer) }

// Request is a request as it is asked for: package opaque says what its methods promise. It is used by one
// goroutine at a time.
type Request interface {
	// At returns what stands at a path of the input; absent if nothing does.
	At(p *Path) (Value, error)
	// Sealed reports whether what stands at a path has to be parsed at a cost.
	Sealed(p *Path) bool
	// Seal appends all of which that is made to b.
	Seal(p *Path, b []byte) []byte
}

// RequestOf returns a request of which the input document is there. Nothing of it is sealed.
func RequestOf(input Input) Request { return documentRequest{opaque.Document{Root: input.value}} }

type documentRequest struct{ opaque.Document }

// At is of [Request].
func (d documentRequest) At(p *Path) (Value, error) {
	t, err := d.Document.At(p)
	return Value{t}, err
}

// asked is a Request as package opaque has it.
type asked struct{ Request }

// Exists is of [opaque.Source].
func (a asked) Exists() bool {
	document, ok := a.Request.(documentRequest)
	return !ok || document.Exists()
}

// At is of [opaque.Source].
func (a asked) At(p *Path) (*ast.Term, error) {
	v, err := a.Request.At(p)
	return v.term, err
}

// Evaluation is one evaluation of a request, or one look-up for it, by what it asks. It is used by one
// goroutine, and ends with End.
type Evaluation struct {
	program *Program
	asks    *opaque.Evaluation
}

// ErrUndecided says that an evaluation has to be made by OPA.
var ErrUndecided = evaluator.ErrUndecided

// SourceError is the error of a request that an evaluation asked for.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return "reading the request: " + e.Err.Error() }

func (e *SourceError) Unwrap() error { return e.Err }

// Ask begins to ask a request, with the clock at now. What is learned is written down if it is for a Record.
func (p *Program) Ask(ctx context.Context, request Request, now time.Time, record bool) *Evaluation {
	builtins := topdown.BuiltinContext{Context: ctx, Capabilities: compile.Capabilities}
	return &Evaluation{p, p.vocabulary.Begin(asked{request}, builtins, now.UnixNano(), record)}
}

// Under lets the evaluation go on under another context.
func (a *Evaluation) Under(ctx context.Context) { a.asks.Builtins.Context = ctx }

// LookUp says that it is a look-up: an answer that would take long is an error.
func (a *Evaluation) LookUp() { a.asks.LookUp() }

// End ends it. Nothing of the request is kept.
func (a *Evaluation) End() { a.asks.End() }

// Record returns what was learned. It is right until End.
func (a *Evaluation) Record() Record { return a.asks.Record() }

// Answer answers a question in a look-up. The error says that it cannot be answered.
func (a *Evaluation) Answer(q *Question) (Answer, error) { return a.asks.Answer(q) }

// Require learns all of which what stands at a name of the input is made, whether it is asked for or not.
// The error is a *SourceError.
func (a *Evaluation) Require(name string) error {
	path, _ := a.program.vocabulary.Input([]*ast.Term{ast.StringTerm(name)})
	if _, err := a.asks.At(nil).Input(path); err != nil {
		a.asks.Abandon()
		return &SourceError{err}
	}
	return nil
}

// Eval evaluates the rule at a path, one that the program has. The error is [ErrUndecided] if OPA has to be
// asked, a *SourceError, or one of [Program.Eval].
func (a *Evaluation) Eval(path string) (Result, error) {
	result, err := a.eval(path)
	if err != nil {
		a.asks.At(nil).Abandon() // it has not learned all on which an outcome rests
	}
	return result, err
}

func (a *Evaluation) eval(path string) (Result, error) {
	q, ctx := a.program.queries[path], a.asks.Builtins.Context
	if q.compiled == nil {
		return Result{}, ErrUndecided
	}
	if ctx.Err() != nil {
		return Result{}, compile.Ended(ctx)
	}
	a.asks.Builtins.Cancel = newCancel(ctx)
	found, err := q.compiled.Eval(a.asks)
	switch {
	case err == nil:
		result, err := resultOf(path, found)
		result.Timed = a.asks.Timed()
		return result, err
	case errors.Is(err, ErrUndecided):
		return Result{}, ErrUndecided
	case errors.Is(err, evaluator.ErrCancelled) && ctx.Err() != nil:
		return Result{}, compile.Ended(ctx)
	case errors.Is(err, evaluator.ErrCancelled):
		return Result{}, stopped(path)
	}
	return Result{}, &SourceError{err}
}

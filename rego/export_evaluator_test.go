package rego

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
)

// walks :: program → what its records said.
var walks sync.Map

// walk is what the records of one program have said so far.
type walk struct {
	mu sync.Mutex
	// next :: questions and answers so far → the next question, or the result.
	next map[string]any
}

// EvalCompiled evaluates a path by the evaluator alone. It returns the forms for which a path
// has no compiled query at all. The error says as well that a record breaks a promise: that the
// evaluation is the same whether it is recorded, that the answers of a look-up are its own, that what follows
// after some answers is always the same, and that the causes have all places that asked.
func EvalCompiled(p *Program, path string, input Input, now time.Time) (result Result, unsupported []Cause, err error) {
	q := p.queries[path]
	if q.compiled == nil {
		return Result{}, p.Interpreted(path), nil
	}
	ctx := context.Background()
	plain := p.Ask(ctx, RequestOf(input), now, false)
	result, err = plain.Eval(path)
	plain.End()
	a := p.Ask(ctx, RequestOf(input), now, true)
	defer a.End()
	recorded, recordedErr := a.Eval(path)
	switch {
	case !errors.Is(recordedErr, err) && (err == nil || recordedErr == nil || recordedErr.Error() != err.Error()):
		return result, nil, fmt.Errorf("recording: %w, without: %w", recordedErr, err)
	case err != nil:
		return result, nil, err
	case recorded.Defined != result.Defined || !reflect.DeepEqual(recorded.Value, result.Value):
		return result, nil, fmt.Errorf("recording: %v, without: %v", recorded, result)
	}
	if broken := p.checkPlaces(path, a.Record()); broken != nil {
		return result, nil, broken
	}
	if broken := p.check(ctx, path, input, now, a.Record(), result); broken != nil {
		return result, nil, broken
	}
	return result, nil, nil
}

// causes :: program → those of its path.
var causes sync.Map

// checkPlaces holds the places of a record against the causes.
func (p *Program) checkPlaces(path string, record Record) error {
	found, known := causes.Load(p)
	if !known {
		found = p.Causes(path)
		causes.Store(p, found)
	}
	listed := func(at *Place) bool {
		return at != nil && slices.ContainsFunc(found.([]Cause), func(c Cause) bool { return c.Kind != CauseRead && c.File == at.File && c.Row == at.Row })
	}
	for i, entry := range record.Entries {
		if !listed(record.Places[i]) {
			return fmt.Errorf("%v is asked at %v, which is not among %v", entry.Question, record.Places[i], found)
		}
	}
	if record.Once && !listed(record.OnceAt) {
		return fmt.Errorf("a record is of one request because of %v, which is not among %v", record.OnceAt, found)
	}
	return nil
}

// check holds a record against a look-up, and against the records before it.
func (p *Program) check(ctx context.Context, path string, input Input, now time.Time, record Record, result Result) error {
	if record.Once {
		return nil
	}
	known, _ := walks.LoadOrStore(p, &walk{next: make(map[string]any)})
	w := known.(*walk)
	w.mu.Lock()
	defer w.mu.Unlock()
	at := path
	follow := func(next any) error {
		if before, ok := w.next[at]; ok && !alike(before, next) {
			return fmt.Errorf("two things follow from one record: %v and %v", before, next)
		}
		w.next[at] = next
		return nil
	}
	look := p.Ask(ctx, RequestOf(input), now, false)
	defer look.End()
	for _, entry := range record.Entries {
		if answer, err := look.Answer(entry.Question); err != nil || answer != entry.Answer {
			return fmt.Errorf("a look-up answers %v (%w), the evaluation %v", answer, err, entry.Answer)
		}
		if err := follow(entry.Question); err != nil {
			return err
		}
		at = fmt.Sprint(at, entry.Answer)
	}
	return follow(Result{Defined: result.Defined, Value: result.Value})
}

// alike reports whether two questions, or results, are equal.
func alike(a, b any) bool {
	x, ok := a.(*Question)
	y, okToo := b.(*Question)
	if ok || okToo {
		return ok && okToo && x.Same(y)
	}
	return reflect.DeepEqual(a, b)
}

// Forget forgets what the records of a program have said.
func Forget(p *Program) {
	walks.Delete(p)
	causes.Delete(p)
}

// OPA returns OPA's form of the modules; nil if it is packed.
func (p *Program) OPA() *ast.Compiler { return p.interpreter.compiler.Load() }

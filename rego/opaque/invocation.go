package opaque

import (
	"errors"

	"github.com/open-policy-agent/opa/v1/ast"
)

// mostSpent is what calls in one look-up may cost, in bytes that are copied: far less than a millisecond.
const mostSpent = 64 << 10

// ErrTooMuch is the error of a look-up that would take long: an evaluation has a deadline, and waits for
// its turn.
var ErrTooMuch = errors.New("looking for the decision would take too long")

// ErrSeveral is the error of a function with several results.
var ErrSeveral = errors.New("a function has several results")

// invocation is the call of a function that is under way. There is one at a time.
type invocation struct {
	terms [MostOperands]*ast.Term
	// result is the last one, and results how many there are.
	result  *ast.Term
	results int
	// collect is the method take, made once.
	collect func(*ast.Term) error
}

// take takes a result.
func (i *invocation) take(t *ast.Term) error {
	i.result = t
	i.results++
	return nil
}

// budget is what the calls of a look-up may cost.
type budget struct {
	// limited says that it is a look-up.
	limited bool
	spent   int
}

// spend counts what a call of a function with some operands costs.
func (b *budget) spend(f *Function, operands []*ast.Term) error {
	if !b.limited || f.Cost == 0 {
		return nil
	}
	for _, t := range operands {
		b.spent += f.Cost * textsIn(t)
	}
	if b.spent > mostSpent {
		return ErrTooMuch
	}
	return nil
}

// textsIn is how many bytes the texts of a term have: of itself, or of the elements of an array.
func textsIn(t *ast.Term) (n int) {
	switch v := t.Value.(type) {
	case ast.String:
		return len(v)
	case *ast.Array:
		v.Foreach(func(element *ast.Term) {
			if text, ok := element.Value.(ast.String); ok {
				n += len(text)
			}
		})
	}
	return n
}

// call calls a function with the operands of the invocation. One that has several results is for somebody else
// to call.
func (e *Evaluation) call(f *Function) (*ast.Term, error) {
	i := &e.invocation
	if err := e.budget.spend(f, i.terms[:f.Arity]); err != nil {
		i.terms = [MostOperands]*ast.Term{} // nothing of the request is kept
		return nil, err
	}
	e.Builtins.Time = nil
	if f.Clock {
		e.Builtins.Time = e.clock.time()
	}
	i.result, i.results = nil, 0
	err := f.Call(e.Builtins, i.terms[:f.Arity], i.collect)
	out := i.result
	i.result, i.terms, e.Builtins.Time = nil, [MostOperands]*ast.Term{}, nil
	if err == nil && i.results > 1 {
		err = ErrSeveral
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

package opaque

import (
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// MostOperands is how many operands a derivation may have.
const MostOperands = 4

// derivation is how a value follows from a request. It is immutable, and one of its vocabulary:
// two derivations are equal if they are the same.
type derivation struct {
	number int
	// path is set for what stands in the input; an empty one is the input itself.
	path *Path
	// function is set for what is made of the operands.
	function *Function
	operands [MostOperands]Value
	// raw says that it is what the clock shows, or computed from that: its content is of use for one
	// request.
	raw bool
	// order marks a computed value instead: see [Evaluation.Ordered]. It is nil for all others.
	order  []*ast.Term
	origin origin
	// costly says that a function that is Costly is called with what follows from the path.
	costly atomic.Bool
}

// Function is a pure function by which values are derived. One is of one vocabulary.
type Function struct {
	// Name is for texts.
	Name string
	// Arity is the number of its operands, at most MostOperands.
	Arity int
	// Call calls collect with the result, if there is one. The error ends the evaluation.
	Call func(bctx topdown.BuiltinContext, operands []*ast.Term, collect func(*ast.Term) error) error
	// Clock says that it reads the clock, which no other function is given.
	Clock bool
	// Cost is about how long a call takes for each byte of its texts, as a multiple of copying it.
	Cost int
	// Part says that the result is a part of the first operand, unless that is a set.
	Part bool
	// Costly says that look-ups cache the answers that follow from the text of which the result is made.
	Costly bool
	// Until returns when the result may be another one, in nanoseconds since 1970. It is nil if that is not known. Only
	// functions that read the clock have it.
	Until func(bctx topdown.BuiltinContext, operands []*ast.Term) int64
}

// GetKey is the function that looks up a key in a collection.
var GetKey = &Function{Name: "get", Arity: 2, Part: true, Call: func(_ topdown.BuiltinContext, operands []*ast.Term, collect func(*ast.Term) error) error {
	if found := Get(operands[0], operands[1]); found != nil {
		return collect(found)
	}
	return nil
}}

// derivationKey is by what a derivation is known.
type derivationKey struct {
	function *Function
	operands [MostOperands]Value
}

// content is what an evaluation knows of a derivation.
type content struct {
	// known says that term and err are right.
	known bool
	// forced says that the record has the content, so that it is not opaque any more.
	forced bool
	// stable says that the term is a part of the program: its address stands for it.
	stable bool
	term   *ast.Term
	err    error
}

// content returns the content of a derived value. Only this package sees it before it is forced.
func (e *Evaluation) content(d *derivation) *content {
	e.grow(d.number+1, 0)
	c := &e.contents[d.number]
	if c.known {
		return c
	}
	e.touched = append(e.touched, d.number)
	var found content
	switch {
	case d.path != nil:
		found.term, found.err = e.source.At(d.path)
	default:
		found = e.computeOnce(d)
	}
	found.known = true
	c = &e.contents[d.number] // operands may have made it longer
	*c = found
	return c
}

// computeOnce is compute, unless a look-up has the content in the cache.
func (e *Evaluation) computeOnce(d *derivation) content {
	cached := e.findText(&d.origin)
	if cached {
		if found, ok := e.text.cachedContent(d); ok {
			return found
		}
	}
	out := e.compute(d)
	if cached {
		e.text.addContent(d, out)
	}
	return out
}

// compute calls the function of a derivation.
func (e *Evaluation) compute(d *derivation) (out content) {
	for i := range d.function.Arity { // of which one may call a function itself
		if operand, err := e.look(d.operands[i]); operand == nil || err != nil {
			return content{err: err}
		}
	}
	for i := range d.function.Arity {
		e.invocation.terms[i], _ = e.look(d.operands[i])
	}
	whole := e.invocation.terms[0]
	out.term, out.err = e.call(d.function)
	if out.term == nil || !d.function.Part {
		return out
	}
	if _, isSet := whole.Value.(ast.Set); !isSet {
		out.stable = e.stable(d.operands[0])
	}
	return out
}

// look returns the content of any value, opaque or not; nil if there is none.
func (e *Evaluation) look(v Value) (*ast.Term, error) {
	if !v.opaque() {
		return v.term, nil
	}
	c := e.content(v.from)
	return c.term, c.err
}

// stable reports whether the content of a value that was looked at is a part of the program.
func (e *Evaluation) stable(v Value) bool {
	if v.opaque() {
		return e.contents[v.from.number].stable
	}
	return v.IsConstant()
}

package rego

import (
	"context"
	"math"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// margin is how much earlier than computed a moment is taken to be: more than any
// rounding on the way there.
const margin = float64(time.Millisecond)

// forever is a horizon that no moment bounds.
const forever = math.MaxInt64

// horizon collects the first moment at which an evaluation would give another value,
// in nanoseconds since 1970: until that, and not a moment longer, all that was noted says
// the same. It is the context of one evaluation and is used by its goroutine alone.
type horizon struct {
	context.Context
	// now is where the clock stands.
	now int64
	// until only ever comes nearer; it is now if nothing is known of the next moment.
	until int64
}

type horizonKey struct{}

// Value makes the horizon itself known below it.
func (h *horizon) Value(key any) any {
	if key == (horizonKey{}) {
		return h
	}
	return h.Context.Value(key)
}

// changesAt notes that something changes at a moment. A moment that is past, by more
// than twice the margin, never comes again; one that is nearer than that, on either side,
// leaves nothing to remember.
func (h *horizon) changesAt(moment float64) {
	switch {
	case math.IsNaN(moment) || math.Abs(moment-float64(h.now)) <= 2*margin:
		h.until = h.now
	case moment < float64(h.now):
	case moment-margin < forever: // so that it fits
		h.until = min(h.until, int64(moment-margin))
	}
}

func horizonOf(bctx topdown.BuiltinContext) *horizon {
	if bctx.Context == nil {
		return nil
	}
	h, _ := bctx.Context.Value(horizonKey{}).(*horizon)
	return h
}

// note tells the horizon when the form passes a value. Of what is no number the
// order to a number is always the same.
func (f clockForm) note(h *horizon, value *ast.Term) {
	n, ok := value.Value.(ast.Number)
	if !ok {
		return
	}
	x, ok := n.Float64()
	if !ok {
		h.until = h.now
		return
	}
	h.changesAt((x - f.offset) / f.factor)
}

// noteToken tells the horizon when a token begins and ends to be valid.
func noteToken(bctx topdown.BuiltinContext, h *horizon, token *ast.Term) {
	decode := topdown.GetBuiltin(ast.JWTDecode.Name)
	err := decode(bctx, []*ast.Term{token}, func(decoded *ast.Term) error {
		parts, ok := decoded.Value.(*ast.Array)
		if !ok || parts.Len() < 2 {
			return nil
		}
		claims, ok := parts.Elem(1).Value.(ast.Object)
		if !ok {
			return nil
		}
		for _, name := range []string{"exp", "nbf"} {
			if claim := claims.Get(ast.StringTerm(name)); claim != nil {
				clockForm{factor: 1e-9}.note(h, claim)
			}
		}
		return nil
	})
	if err != nil {
		// The two read tokens in slightly different ways: what one cannot decode the other
		// may accept.
		h.until = h.now
	}
}

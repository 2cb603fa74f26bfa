package tokens

import (
	"math"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// validity is when a result is right: from (inclusive) until (exclusive), in nanoseconds since 1970.
type validity struct{ from, until int64 }

// always is the validity of what does not depend on the clock.
var always = validity{math.MinInt64, math.MaxInt64}

// margin is how much earlier than computed a moment is taken to be: more than any rounding on
// the way there.
const margin = float64(time.Millisecond)

// validityAt returns a validity from the moment on that a clock shows, which nothing ends yet. It reports
// false if there is no clock.
func validityAt(clock *ast.Term) (validity, bool) {
	if clock == nil {
		return validity{}, false
	}
	n, ok := clock.Value.(ast.Number)
	if !ok {
		return validity{}, false
	}
	now, ok := n.Int64()
	return validity{now, math.MaxInt64}, ok
}

// Until returns when io.jwt.decode_verify may have another result than now, in nanoseconds since 1970. That is in the
// past if it is not known.
func Until(bctx topdown.BuiltinContext, operands []*ast.Term) int64 {
	v, known := validityAt(bctx.Time)
	if !known {
		return math.MinInt64
	}
	v.endWith(bctx, operands[0])
	return v.until
}

// endWith ends it when a token begins or ceases to be valid.
func (v *validity) endWith(bctx topdown.BuiltinContext, token *ast.Term) {
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
				v.endAt(claim)
			}
		}
		return nil
	})
	if err != nil {
		// The two read tokens in slightly different ways: what one cannot decode the other
		// may accept.
		v.until = v.from
	}
}

// endAt ends it at a moment in seconds since 1970, as a claim has it. A moment that is past, by more than
// twice the margin, never comes again; one that is nearer than that, on either side, leaves nothing to keep.
// What is no number is no moment.
func (v *validity) endAt(claim *ast.Term) {
	n, ok := claim.Value.(ast.Number)
	if !ok {
		return
	}
	seconds, ok := n.Float64()
	moment := seconds * float64(time.Second)
	switch {
	case !ok || math.IsNaN(moment) || math.Abs(moment-float64(v.from)) <= 2*margin:
		v.until = v.from
	case moment < float64(v.from):
	case moment-margin < math.MaxInt64: // so that it fits
		v.until = min(v.until, int64(moment-margin))
	}
}

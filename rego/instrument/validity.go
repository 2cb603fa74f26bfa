package instrument

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

// Forever is a validity that no moment bounds.
const Forever = math.MaxInt64

// Validity tracks the earliest time at which the result of an evaluation could change;
// the result may be cached until then. Times are nanoseconds since 1970. It is the
// context of one evaluation and is used by its goroutine alone: OPA hands a context to
// every built-in, and has no other way to get from a built-in to the evaluation around
// it.
type Validity struct {
	context.Context
	// Now is where the clock stands.
	Now int64
	// Until only ever comes nearer; it is Now if nothing is known of the next moment.
	Until int64
	// Observed is what calls for the key of a request have cost so far, in bytes of text.
	Observed int
}

type validityKey struct{}

// Value makes the validity itself known below it, as context.WithValue would, without
// the allocation for each evaluation.
func (v *Validity) Value(key any) any {
	if key == (validityKey{}) {
		return v
	}
	return v.Context.Value(key)
}

// Of returns the validity that a built-in is to note on; nil if nobody asks for it.
func Of(bctx topdown.BuiltinContext) *Validity {
	if bctx.Context == nil {
		return nil
	}
	v, _ := bctx.Context.Value(validityKey{}).(*Validity)
	return v
}

// ChangesAt notes that something changes at a moment. A moment that is past, by more
// than twice the margin, never comes again; one that is nearer than that, on either side,
// leaves nothing to cache.
func (v *Validity) ChangesAt(moment float64) {
	switch {
	case math.IsNaN(moment) || math.Abs(moment-float64(v.Now)) <= 2*margin:
		v.Until = v.Now
	case moment < float64(v.Now):
	case moment-margin < Forever: // so that it fits
		v.Until = min(v.Until, int64(moment-margin))
	}
}

// ChangesWith notes when factor × nanoseconds + offset passes a value. Of what is no
// number the order to a number is always the same.
func (v *Validity) ChangesWith(value *ast.Term, factor, offset float64) {
	n, ok := value.Value.(ast.Number)
	if !ok {
		return
	}
	x, ok := n.Float64()
	if !ok {
		v.Until = v.Now
		return
	}
	v.ChangesAt((x - offset) / factor)
}

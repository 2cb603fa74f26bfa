package sidecar

import (
	"testing"
	"time"

	"understudy/authz"
)

// BenchmarkUncached is the cost of a decision that is evaluated, with turns and a timeout as
// live ones have, and with a timeout alone.
func BenchmarkUncached(b *testing.B) {
	compiled, err := authz.Compile(b.Context(), allowing("1", `input.x == "a"`))
	if err != nil {
		b.Fatal(err)
	}
	for name, scheduler := range map[string]authz.Scheduler{"turns": newTurns(1).policy(), "timeout": nil} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := documentRequest(map[string]any{"x": "a"}, time.Unix(1_700_000_000, 0))
				if d := compiled.Decide(b.Context(), r, authz.Conditions{Timeout: time.Second, Scheduler: scheduler}); d.Effect != authz.Allow {
					b.Fatalf("got %+v", d)
				}
			}
		})
	}
}

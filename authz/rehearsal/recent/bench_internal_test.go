package recent

import (
	"math/rand/v2"
	"testing"

	"understudy/authz"
)

// BenchmarkOffer measures what a check pays: while the sample is off, once it is full, and for
// a request that is kept.
func BenchmarkOffer(b *testing.B) {
	r := &authz.Request{ID: "d", Size: 1000, Sent: sent(100)}
	for name, s := range map[string]*Requests{"off": nil, "full": New(2000), "kept": New(2000)} {
		if name == "full" {
			for range 1_000_000 {
				s.Offer(Version{"p", "W/1"}, r, authz.Decision{})
			}
		}
		if name == "kept" {
			n := uint64(0)
			s.draw = func() uint64 { n += 1 << 40; return n + rand.Uint64N(1<<40) }
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Offer(Version{"p", "W/1"}, r, authz.Decision{})
			}
		})
	}
}

package extauthz_test

import (
	"context"
	"fmt"
	"testing"

	"understudy/authz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
)

// BenchmarkInput makes the whole input document.
func BenchmarkInput(b *testing.B) {
	var failed error
	s := servertest.New(b, servertest.Decide(func(_ context.Context, r *authz.Request) authz.Decision {
		_, failed = r.Input(nil)
		return authz.Decision{Plain: true}
	}))
	request := checktest.Istio()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Check(context.Background(), request); err != nil || failed != nil {
			b.Fatal(err, failed)
		}
	}
}

// BenchmarkCheck answers without asking a policy.
func BenchmarkCheck(b *testing.B) {
	for name, d := range map[string]authz.Decision{
		"plain": {Effect: authz.Allow, Plain: true},
		"headers": {
			Effect: authz.Allow, Headers: fields("x-user", "alice", "x-role", "reader"),
			Metadata: map[string]any{"user": "alice"},
		},
		"denial": {HTTPStatus: 429, Body: fmt.Sprintf("%0100d", 1), Headers: fields("retry-after", "5")},
	} {
		b.Run(name, func(b *testing.B) {
			s := servertest.New(b, servertest.Constant(d))
			request := checktest.Istio()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Check(context.Background(), request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

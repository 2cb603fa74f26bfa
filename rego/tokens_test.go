package rego_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"understudy/rego"
)

// TestTokensAreJudgedByAllOperands: a result that is cached for a token is used
// for the same operands alone. OPA's own cache accepts a token of another algorithm.
func TestTokensAreJudgedByAllOperands(t *testing.T) {
	p, err := rego.Compile(context.Background(), rego.Source{
		Modules: map[string]string{"m.rego": `package p

allow if io.jwt.decode_verify(input.token, input.constraints)[0]
signed if io.jwt.verify_hs256(input.token, input.secret)
stronger if io.jwt.verify_hs512(input.token, input.secret)
`},
		Paths: []string{"p/allow", "p/signed", "p/stronger"},
	})
	if err != nil {
		t.Fatal(err)
	}
	token := signedToken(map[string]any{"exp": epoch + 10, "iss": "i"}, "s")
	for _, tt := range []struct {
		path, with string
		second     int64
		want       bool
	}{
		{"p/allow", `"constraints": {"secret": "s"}`, 0, true},
		{"p/allow", `"constraints": {"secret": "s"}`, 5, true},
		{"p/allow", `"constraints": {"secret": "s"}`, 11, false},
		{"p/allow", `"constraints": {"secret": "s"}`, 1, true}, // a clock that was set back
		{"p/allow", `"constraints": {"secret": "other"}`, 0, false},
		{"p/allow", `"constraints": {"secret": "s", "alg": "HS512"}`, 0, false},
		{"p/allow", `"constraints": {"secret": "s", "alg": "HS256"}`, 0, true},
		{"p/allow", `"constraints": {"secret": "s", "iss": "j"}`, 0, false},
		{"p/allow", fmt.Sprintf(`"constraints": {"secret": "s", "time": %d}`, (epoch+20)*int64(1e9)), 0, false},
		{"p/signed", `"secret": "s"`, 0, true},
		{"p/signed", `"secret": "other"`, 0, false},
		{"p/stronger", `"secret": "s"`, 0, false},
		{"p/signed", `"secret": "s"`, 100, true},
	} {
		in := input(t, fmt.Sprintf(`{"token": %q, %s}`, token, tt.with))
		for range 2 {
			got, err := p.Eval(context.Background(), tt.path, in, time.Unix(epoch+tt.second, 0))
			if err != nil || got.Defined != tt.want {
				t.Errorf("%s with %s after %d s: %v, %v; want %v", tt.path, tt.with, tt.second, got.Defined, err, tt.want)
			}
		}
	}
}

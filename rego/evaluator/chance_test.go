package evaluator_test

import (
	"context"
	"testing"

	"understudy/rego"
)

// TestWhatReadsTheClockBehindOursIsLeftToOPA: a chain of certificates that is verified ends to be valid at a
// moment that no question asks for.
func TestWhatReadsTheClockBehindOursIsLeftToOPA(t *testing.T) {
	for _, call := range []string{
		`crypto.x509.parse_and_verify_certificates(input.chain)[0]`,
		`crypto.x509.parse_and_verify_certificates_with_options(input.chain, {})[0]`,
		`rand.intn("x", 2) == 1`,
	} {
		p, err := rego.Compile(context.Background(), rego.Source{
			Modules: map[string]string{"m.rego": "package p\nallow if " + call}, Paths: []string{"p/allow"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if forms := p.Interpreted("p/allow"); len(forms) == 0 || p.Deterministic("p/allow") {
			t.Errorf("%s: the unknown forms are %v, deterministic: %v", call, forms, p.Deterministic("p/allow"))
		}
	}
}

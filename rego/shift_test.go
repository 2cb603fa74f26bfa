package rego_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"understudy/rego"
)

// TestShiftIsBounded: a request must not choose how much memory a number takes. A shift
// that is too far has no value, as any error of a built-in.
func TestShiftIsBounded(t *testing.T) {
	p, err := rego.Compile(context.Background(), rego.Source{
		Modules: map[string]string{"m.rego": "package p\nallow if bits.lsh(1, input.n) > 0"}, Paths: []string{"p/allow"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[string]bool{
		"0": true, "65536": true, "65537": false, fmt.Sprint(uint64(1) << 63): false, "18446744073709551615": false, "1e300": false, "-1": false,
	} {
		got, err := p.Eval(context.Background(), "p/allow", input(t, `{"n": `+n+`}`), time.Unix(epoch, 0))
		if err != nil || got.Defined != want {
			t.Errorf("shifted by %s: defined is %v, %v; want %v", n, got.Defined, err, want)
		}
	}
}

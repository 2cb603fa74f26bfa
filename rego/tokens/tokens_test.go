package tokens_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"understudy/rego"
	"understudy/rego/tokens"
)

// TestTokensAreBoundedInBytes: anyone who sends long tokens that nobody has signed must
// not fill the memory of the sidecar.
func TestTokensAreBoundedInBytes(t *testing.T) {
	p, err := rego.Compile(context.Background(), rego.Source{
		Modules: map[string]string{"m.rego": "package p\nallow if io.jwt.decode(input.token)[1].a"}, Paths: []string{"p/allow"},
	})
	if err != nil {
		t.Fatal(err)
	}
	long := make([]int, 20_000)
	for i := range 200 {
		claims, err := json.Marshal(map[string]any{"a": i, "long": long})
		if err != nil {
			t.Fatal(err)
		}
		part := base64.RawURLEncoding.EncodeToString
		in, err := rego.NewInput(map[string]any{"token": part([]byte(`{"alg":"HS256"}`)) + "." + part(claims) + ".c2lnbmF0dXJl"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Eval(context.Background(), "p/allow", in, time.Unix(1_700_000_000, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if bytes, limit := tokens.CachedTokens(); bytes > limit || bytes == 0 {
		t.Errorf("%d bytes are cached, want at most %d", bytes, limit)
	}
}

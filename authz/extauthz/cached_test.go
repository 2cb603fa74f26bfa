package extauthz_test

import (
	"math/rand/v2"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
)

// TestShuffledClaimsAreCached: Envoy writes the same claims in another order each time,
// and the decision is found all the same.
func TestShuffledClaimsAreCached(t *testing.T) {
	content := checktest.Envoy(t)["full/jwt"]
	m := servertest.Measure(t, servertest.ClaimsAndMore)
	r := rand.New(rand.NewPCG(1, 5))
	seen := make(map[string]bool)
	for range 60 {
		wire := checktest.Shuffled(t, r, content, (&authv3.CheckRequest{}).ProtoReflect().Descriptor())
		seen[string(wire)] = true
		if _, err := m.CheckWire(t.Context(), wire); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) < 50 {
		t.Errorf("60 requests have %d orders", len(seen))
	}
	if hits := m.Hits(t); hits != 59 {
		t.Errorf("%d of 60 requests with the same claims were hits of the decision cache, want 59", hits)
	}
}

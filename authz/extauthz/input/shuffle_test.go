package input_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"understudy/authz/extauthz/checktest"

	"understudy/authz/extauthz/input"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
)

// holdsShuffled checks that the order of maps is nothing to decisions: a request has the same document and
// the same seals with its maps in any order.
func holdsShuffled(t *testing.T, r *rand.Rand, wire []byte) {
	t.Helper()
	other := checktest.Shuffled(t, r, wire, (&authv3.CheckRequest{}).ProtoReflect().Descriptor())
	holdsLazy(t, other)
	a, b := partsOf(t, wire), partsOf(t, other)
	for _, place := range sealedPlaces {
		if path := pathTo([]any{place}); !bytes.Equal(a.Seal(path, nil), b.Seal(path, nil)) {
			t.Fatalf("another order of maps makes another seal of %s", place)
		}
	}
	x, xErr := a.At(pathTo(nil))
	y, yErr := b.At(pathTo(nil))
	if (xErr == nil) != (yErr == nil) {
		t.Fatalf("the error is %v, shuffled %v", xErr, yErr)
	}
	if xErr == nil {
		if diff := checktest.Difference(documentOf(t, x.Input()), documentOf(t, y.Input())); diff != "" {
			t.Fatalf("another order of maps makes another document:\n%s", diff)
		}
	}
}

// TestTheLastClaimCounts: of a claim that comes twice the last one counts, so that its
// order is no matter of indifference.
func TestTheLastClaimCounts(t *testing.T) {
	sub := pathTo([]any{"attributes", "metadataContext", "filterMetadata", "envoy.filters.http.jwt_authn", "payload", "sub"})
	for want, wire := range map[string]string{
		"alice": claims(claim("sub", text("bob")), claim("sub", text("alice"))),
		"bob":   claims(claim("sub", text("alice")), claim("sub", text("bob"))),
		"carol": claims(claim("sub", text("carol"))),
	} {
		got, err := partsOf(t, []byte(wire)).At(sub)
		if err != nil || documentOf(t, got.Input()) != want {
			t.Errorf("got %v and %v, want %s", got, err, want)
		}
		if why := input.FallbackOf([]byte(wire)); why != "" {
			t.Errorf("decoded in full: %s", why)
		}
	}
	for name, wire := range map[string]string{
		"struct": claims(claim("sub", in(2, in(5, claim("a", text("x"))), in(5, claim("b", text("y")))))),
		"list":   claims(claim("sub", in(2, in(6), in(6)))),
		"value":  claims(in(1, in(1, "sub"), text("bob"), text("alice"))),
	} {
		if why := input.FallbackOf([]byte(wire)); why != "unusual_message" {
			t.Errorf("a %s that comes twice is decoded in full for %q, want unusual_message", name, why)
		}
	}
}

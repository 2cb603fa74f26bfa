package input_test

import (
	"math/rand/v2"
	"testing"

	"understudy/authz/extauthz/checktest"

	"understudy/authz/extauthz/input"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/rego"
)

// holdsShuffled checks that the order of maps is nothing to the decision cache: a
// request has the same key and the same input with its maps in any order.
func holdsShuffled(t *testing.T, r *rand.Rand, wire []byte, sets []*rego.Reads) {
	t.Helper()
	other := checktest.Shuffled(t, r, wire, (&authv3.CheckRequest{}).ProtoReflect().Descriptor())
	for _, set := range sets {
		_, key, ok, err := project(wire, set)
		_, again, okAgain, errAgain := project(other, set)
		if ok != okAgain || (err == nil) != (errAgain == nil) {
			t.Fatalf("%s: read %v (%v), shuffled %v (%v)", set, ok, err, okAgain, errAgain)
		}
		if key != again {
			t.Fatalf("%s: another order of maps makes another key:\n%q\n%q", set, key, again)
		}
	}
	holdsLazy(t, other, sets)
}

// TestTheLastClaimCounts: of a claim that comes twice the last one counts, so that its
// order is no matter of indifference.
func TestTheLastClaimCounts(t *testing.T) {
	set := reads(t, jwtPayload+`.sub == "alice"`)
	_, alice, ok, _ := project([]byte(claims(claim("sub", text("bob")), claim("sub", text("alice")))), set)
	_, bob, okToo, _ := project([]byte(claims(claim("sub", text("alice")), claim("sub", text("bob")))), set)
	_, once, _, _ := project([]byte(claims(claim("sub", text("alice")))), set)
	if !ok || !okToo || alice == bob || alice != once {
		t.Errorf("bob, then alice: %q; alice, then bob: %q; alice: %q", alice, bob, once)
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

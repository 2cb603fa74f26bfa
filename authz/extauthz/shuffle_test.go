package extauthz_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"understudy/authz/extauthz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
	"understudy/rego"
)

// shuffled returns a message with the entries of all its maps in another order, as Envoy
// writes them with nearly every message. Entries of one name keep theirs, for the last
// of them counts.
func shuffled(t testing.TB, r *rand.Rand, wire []byte, d protoreflect.MessageDescriptor) []byte {
	t.Helper()
	type part struct {
		content []byte
		entry   bool
		order   uint64
	}
	var parts []part
	order := make(map[string]uint64)
	for len(wire) > 0 {
		number, kind, head := protowire.ConsumeTag(wire)
		n := protowire.ConsumeFieldValue(number, kind, wire[max(head, 0):])
		if head < 0 || n < 0 {
			t.Fatal("a broken message is shuffled")
		}
		p := part{content: wire[:head+n]}
		f := d.Fields().ByNumber(number)
		if f != nil && f.Message() != nil && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(wire[head:])
			inner := shuffled(t, r, value, f.Message())
			p.content = protowire.AppendBytes(protowire.AppendTag(nil, number, kind), inner)
			if p.entry = f.IsMap(); p.entry {
				name := string(wire[:head]) + nameOfEntry(value)
				if _, ok := order[name]; !ok {
					order[name] = r.Uint64()
				}
				p.order = order[name]
			}
		}
		parts = append(parts, p)
		wire = wire[head+n:]
	}
	var entries []part
	for _, p := range parts {
		if p.entry {
			entries = append(entries, p)
		}
	}
	slices.SortStableFunc(entries, func(a, b part) int {
		if a.order < b.order {
			return -1
		}
		return int(min(1, a.order-b.order))
	})
	var out []byte
	for _, p := range parts {
		if p.entry {
			p, entries = entries[0], entries[1:]
		}
		out = append(out, p.content...)
	}
	return out
}

// nameOfEntry returns the name of a map's entry: its last, if it has several.
func nameOfEntry(entry []byte) (name string) {
	for len(entry) > 0 {
		number, kind, head := protowire.ConsumeTag(entry)
		n := protowire.ConsumeFieldValue(number, kind, entry[head:])
		if number == 1 && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(entry[head:])
			name = string(value)
		}
		entry = entry[head+n:]
	}
	return name
}

// holdsShuffled checks that the order of maps is nothing to the decision cache: a
// request has the same key and the same input with its maps in any order.
func holdsShuffled(t *testing.T, r *rand.Rand, wire []byte, sets []*rego.Reads) {
	t.Helper()
	other := shuffled(t, r, wire, (&authv3.CheckRequest{}).ProtoReflect().Descriptor())
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
	holdsView(t, other, sets)
}

// TestShuffledClaimsAreCached: Envoy writes the same claims in another order each time,
// and the decision is found all the same.
func TestShuffledClaimsAreCached(t *testing.T) {
	content := checktest.Envoy(t)["full/jwt"]
	m := servertest.Measure(t, claimsAndMore)
	r := rand.New(rand.NewPCG(1, 5))
	seen := make(map[string]bool)
	for range 60 {
		wire := shuffled(t, r, content, (&authv3.CheckRequest{}).ProtoReflect().Descriptor())
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
		if why := extauthz.Declined([]byte(wire)); why != "unusual_message" {
			t.Errorf("a %s that comes twice is declined for %q, want unusual_message", name, why)
		}
	}
}

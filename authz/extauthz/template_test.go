package extauthz

import (
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
)

// TestAnswersWithTheDecisionIDArePrepared: the answer of a cached decision is marshalled
// once, with --decision-id-header too, and is what would be marshalled for the next ID.
func TestAnswersWithTheDecisionIDArePrepared(t *testing.T) {
	header, err := WithDecisionIDHeader("x-decision-id")
	if err != nil {
		t.Fatal(err)
	}
	for name, options := range map[string][]Option{"without the header": nil, "with the header": {header}} {
		for _, d := range []authz.Decision{
			{Effect: authz.Allow, Plain: true}, {Effect: authz.Deny, Plain: true}, {Effect: authz.Allow}, {Effect: authz.Deny},
		} {
			s := New(nil, options...)
			id, next := newID(), newID()
			response, err := s.respond(id, nil, d)
			if err != nil {
				t.Fatal(err)
			}
			wire, err := proto.Marshal(response)
			if err != nil {
				t.Fatal(err)
			}
			prepared := newTemplate(string(wire), id, s.places(response))
			if prepared == nil {
				t.Errorf("%s: the answer of %+v is marshalled each time", name, d)
				continue
			}
			got := &authv3.CheckResponse{}
			if err := proto.Unmarshal(prepared.with(next).wire, got); err != nil {
				t.Fatal(err)
			}
			if want, err := s.respond(next, nil, d); err != nil || !proto.Equal(got, want) {
				t.Errorf("%s: the prepared answer is %v, want %v, %v", name, got, want, err)
			}
		}
	}
}

package extauthz_test

import (
	"context"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
)

// TestAnObserverEnforcesNothing: whatever is decided, and whatever breaks, the answer is
// OK without an edit, and what was decided stands below one key.
func TestAnObserverEnforcesNothing(t *testing.T) {
	plain := checktest.HTTP(&authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/"})
	for name, c := range map[string]struct {
		decider extauthz.Decider
		wire    []byte
		want    map[string]any
	}{
		"an allow with edits": {servertest.Constant(servertest.Edited), marshalled(t, plain), map[string]any{"decision": "ALLOW"}},
		"a denial":            {servertest.Constant(servertest.Refused), marshalled(t, plain), map[string]any{"decision": "DENY", "reason": "nobody"}},
		"a failure": {
			servertest.Constant(authz.Decision{Failure: authz.FailureNotReady, Reason: "Why."}), marshalled(t, plain),
			map[string]any{"decision": "DENY", "failure": "NOT_READY", "reason": "Why."},
		},
		"what cannot be sent": {
			servertest.Constant(authz.Decision{Effect: authz.Allow, Headers: []authz.Field{{Name: "a b", Value: "c"}}}), marshalled(t, plain),
			map[string]any{"decision": "DENY", "failure": "WRONG_TYPE"},
		},
		"a panic":       {servertest.Broken{}, marshalled(t, plain), map[string]any{"decision": "DENY", "failure": "PANIC", "reason": "The check panicked."}},
		"no attributes": {servertest.Constant(servertest.Edited), nil, map[string]any{"decision": "DENY", "failure": "BAD_REQUEST", "reason": "The request has no attributes."}},
		"no request": {
			servertest.Constant(servertest.Edited), []byte("\xff\xff"),
			map[string]any{"decision": "DENY", "failure": "BAD_REQUEST", "reason": "The request is not a CheckRequest."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			// It wins over the option that would make errors of failures.
			s := servertest.New(t, c.decider, extauthz.Observe(), extauthz.OnFailureError())
			answer, err := s.CheckWire(context.Background(), c.wire)
			if err != nil {
				t.Fatal(err)
			}
			response := &authv3.CheckResponse{}
			if err := proto.Unmarshal(answer, response); err != nil {
				t.Fatal(err)
			}
			if response.GetStatus().GetCode() != 0 || response.GetHttpResponse() != nil {
				t.Errorf("the answer is %v", response)
			}
			got := response.GetDynamicMetadata().AsMap()
			observed, _ := got["observed"].(map[string]any)
			if id, _ := observed["decision_id"].(string); len(got) != 1 || !servertest.UUID.MatchString(id) {
				t.Fatalf("the metadata is %v", got)
			}
			delete(observed, "decision_id")
			if name == "what cannot be sent" {
				delete(observed, "reason")
			}
			if diff := cmp.Diff(c.want, observed); diff != "" {
				t.Errorf("observed (-want +got):\n%s", diff)
			}
		})
	}
}

func marshalled(t *testing.T, m proto.Message) []byte {
	t.Helper()
	wire, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

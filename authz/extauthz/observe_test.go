package extauthz_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/extauthz"
)

// edited is an allow with every edit there is.
var edited = authz.Decision{
	Verdict: authz.Allow, Headers: []authz.Field{{Name: "x-user", Value: "alice"}}, RemoveHeaders: []string{"x-secret"},
	ResponseHeaders: []authz.Field{{Name: "x-decided", Value: "yes"}}, SetQuery: []authz.Field{{Name: "page", Value: "2"}},
	RemoveQuery: []string{"debug"}, Metadata: map[string]any{"tenant": "acme", "decision_id": "forged"},
}

// refusedEntirely is a denial with all that one may have.
var refusedEntirely = authz.Decision{
	HTTPStatus: 401, Body: "Who are you?", Headers: []authz.Field{{Name: "www-authenticate", Value: "Bearer"}}, Reason: "nobody",
	Metadata: map[string]any{"tenant": "acme"},
}

// TestAnObserverEnforcesNothing: whatever is decided, and whatever breaks, the answer is
// OK without an edit, and what was decided stands below one key.
func TestAnObserverEnforcesNothing(t *testing.T) {
	plain := httpRequest(&authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/"})
	for name, c := range map[string]struct {
		decider extauthz.Decider
		wire    []byte
		want    map[string]any
	}{
		"an allow with edits": {constant(edited), marshalled(t, plain), map[string]any{"decision": "ALLOW"}},
		"a denial":            {constant(refusedEntirely), marshalled(t, plain), map[string]any{"decision": "DENY", "reason": "nobody"}},
		"a failure": {
			constant(authz.Decision{Failure: authz.FailureNotReady, Reason: "Why."}), marshalled(t, plain),
			map[string]any{"decision": "DENY", "failure": "NOT_READY", "reason": "Why."},
		},
		"what cannot be sent": {
			constant(authz.Decision{Verdict: authz.Allow, Headers: []authz.Field{{Name: "a b", Value: "c"}}}), marshalled(t, plain),
			map[string]any{"decision": "DENY", "failure": "WRONG_TYPE"},
		},
		"a panic":       {panicking{}, marshalled(t, plain), map[string]any{"decision": "DENY", "failure": "PANIC", "reason": "The check panicked."}},
		"no attributes": {constant(edited), nil, map[string]any{"decision": "DENY", "failure": "BAD_REQUEST", "reason": "The request has no attributes."}},
		"no request": {
			constant(edited), []byte("\xff\xff"),
			map[string]any{"decision": "DENY", "failure": "BAD_REQUEST", "reason": "The request is not a CheckRequest."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			// It wins over the option that would make errors of failures.
			s := newServer(t, c.decider, extauthz.Observe(), extauthz.OnFailureError())
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
			told, _ := got["observed"].(map[string]any)
			if id, _ := told["decision_id"].(string); len(got) != 1 || !uuidForm.MatchString(id) {
				t.Fatalf("the metadata is %v", got)
			}
			delete(told, "decision_id")
			if name == "what cannot be sent" {
				delete(told, "reason")
			}
			if diff := cmp.Diff(c.want, told); diff != "" {
				t.Errorf("what is told (-want +got):\n%s", diff)
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

// TestAnObserverEnforcesNothingOverHTTP: 200 for every form and whatever is asked, with
// a header that says what the answer would have been.
func TestAnObserverEnforcesNothingOverHTTP(t *testing.T) {
	forward := "GET /forward-auth HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /x\r\nX-Forwarded-Host: a\r\n" +
		"X-Forwarded-Proto: http\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
	ask := "GET /envoy/x HTTP/1.1\r\nHost: a\r\n\r\n"
	headers := authz.Decision{Verdict: authz.Allow, Headers: []authz.Field{{Name: "x-user", Value: "alice"}}}
	for name, c := range map[string]struct {
		decider       extauthz.Decider
		raw           string
		want, failure string
	}{
		"an allow":            {constant(headers), ask, "ALLOW", ""},
		"an allow, forwarded": {constant(headers), forward, "ALLOW", ""},
		"a denial":            {constant(refusedEntirely), ask, "DENY", ""},
		"a failure":           {constant(authz.Decision{Failure: authz.FailureUndefined}), ask, "DENY", "UNDEFINED"},
		"what cannot be said": {constant(edited), ask, "DENY", "WRONG_TYPE"},
		"a panic":             {panicking{}, ask, "DENY", "PANIC"},
		"another path":        {constant(headers), "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", "DENY", ""},
		"a header is missing": {constant(headers), "GET /forward-auth HTTP/1.1\r\nHost: a\r\n\r\n", "DENY", ""},
		"a body that is too long": {
			constant(headers), "POST /envoy/x HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n01234567890", "DENY", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, c.decider, extauthz.Observe(), extauthz.OnFailureError())
			front := listenHTTP(t, s, extauthz.HTTPConfig{PathPrefix: "/envoy", MaxBody: 10})
			response := sendRaw(t, front, []byte(c.raw))
			if response.code != http.StatusOK || response.header.Get("X-Understudy-Observed") != c.want ||
				response.header.Get("X-Understudy-Failure") != c.failure {
				t.Errorf("got %s", rendered(t, response))
			}
			for _, name := range []string{"X-User", "Www-Authenticate", "X-Envoy-Auth-Headers-To-Remove"} {
				if response.header.Get(name) != "" {
					t.Errorf("the answer sets %s", name)
				}
			}
			if text := string(rendered(t, response)); strings.Contains(text, "Who are you") {
				t.Errorf("the answer has a body: %s", text)
			}
		})
	}
}

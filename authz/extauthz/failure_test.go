package extauthz_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
)

// identified is a request that others know by an ID, to a route with a policy of its own.
func identified(id string) *authv3.CheckRequest {
	r := checktest.HTTP(&authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/?q=secret", Headers: map[string]string{"x-request-id": id, "authorization": "secret"}})
	r.Attributes.ContextExtensions = map[string]string{"policy": "web"}
	return r
}

// ask sends a request as Envoy does.
func ask(t *testing.T, s *extauthz.Server, request *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	t.Helper()
	wire, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.CheckWire(t.Context(), wire)
	if err != nil {
		return nil, err
	}
	response := &authv3.CheckResponse{}
	if err := proto.Unmarshal(out, response); err != nil {
		t.Fatal(err)
	}
	return response, nil
}

// TestFailureAsErrorIsLogged: Envoy's access log knows nothing of it, or less.
// Time stands still, so that no more lines than one second has are logged.
func TestFailureAsErrorIsLogged(t *testing.T) {
	for name, option := range map[string]extauthz.Option{"error": extauthz.OnFailureError(), "response": extauthz.OnFailureResponse()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { leavesALine(t, option) })
		})
	}
}

func leavesALine(t *testing.T, option extauthz.Option) {
	var log bytes.Buffer
	d := func(context.Context, *authz.Request) authz.Decision {
		return authz.Decision{Failure: authz.FailureUndefined, Rule: "r", Reason: "Why."}
	}
	s := extauthz.New(servertest.Decide(d), option, extauthz.WithFailureLog(slog.New(slog.NewTextHandler(&log, nil)), "own"))
	_, _ = ask(t, s, identified("the-request\n\u202e"+strings.Repeat("x", 200)))
	got := log.String()
	for _, want := range []string{"level=WARN", "policy=web", "failure=UNDEFINED", "reason=Why.", "rule=r", "decision_id=", "request_id=\"the-request\uFFFD\uFFFD" + strings.Repeat("x", 115) + "\" "} {
		if !strings.Contains(got, want) {
			t.Errorf("the log has no %s: %s", want, got)
		}
	}
	for range 1000 {
		_, _ = ask(t, s, checktest.HTTP(&authv3.AttributeContext_HttpRequest{}))
	}
	if got := log.String(); strings.Count(got, "\n") != 10 || !strings.Contains(got, "policy=own") || strings.Contains(got, "secret") {
		t.Errorf("after 1000 failures the log is %s", got)
	}
}

// TestFailureAsResponseHasMetadata, but for those that Envoy may ask another server
// about.
func TestFailureAsResponseHasMetadata(t *testing.T) {
	asking := func(why authz.Failure) *extauthz.Server {
		return extauthz.New(servertest.Failing(why), extauthz.OnFailureResponse())
	}
	response, err := ask(t, asking(authz.FailureDeadline), identified("a"))
	if err != nil {
		t.Fatal(err)
	}
	fields := response.GetDynamicMetadata().GetFields()
	if response.GetErrorResponse().GetStatus().GetCode() != 503 || codes.Code(response.GetStatus().GetCode()) == codes.OK ||
		fields["decision_id"].GetStringValue() == "" || fields["failure"].GetStringValue() != "DEADLINE_EXCEEDED" || fields["reason"].GetStringValue() != "why" {
		t.Errorf("got %v; want an error_response with its metadata", response)
	}
	if response, err := ask(t, asking(authz.FailureNotReady), identified("a")); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, %v; want UNAVAILABLE", response, err)
	}
	if response, err := ask(t, asking(authz.FailureRequest), identified("a")); err != nil || response.GetDeniedResponse().GetStatus().GetCode() != 400 {
		t.Errorf("got %v, %v; want what does not parse denied", response, err)
	}
}

// TestDenialHasTheDecisionIDHeader, also when the decision comes from the cache, whose
// answer is marshalled once. An allowed one has nothing to ask about.
func TestDenialHasTheDecisionIDHeader(t *testing.T) {
	for name, module := range map[string]string{
		"a bare denial":    servertest.OnlyGET,
		"a full denial":    "package envoy.authz\nallow := {\"allowed\": input.attributes.request.http.method == \"GET\", \"headers\": {\"X-Decision\": \"forged\", \"x-a\": \"1\"}, \"body\": \"no\"}",
		"a failed request": "package envoy.authz\nallow if input.attributes.request.http.method == \"GET\"",
	} {
		t.Run(name, func(t *testing.T) {
			idHeader, err := extauthz.WithDecisionIDHeader("X-Decision")
			if err != nil {
				t.Fatal(err)
			}
			s := extauthz.New(servertest.Sidecar(t, map[authz.PolicyID]*adminpb.Policy{"web": servertest.Policy(module)}), idHeader)
			seen := make(map[string]bool)
			for range 3 {
				request := identified("a")
				request.Attributes.Request.Http.Method = "POST"
				response, err := ask(t, s, request)
				if err != nil {
					t.Fatal(err)
				}
				id := response.GetDynamicMetadata().GetFields()["decision_id"].GetStringValue()
				var got []string
				for _, h := range response.GetDeniedResponse().GetHeaders() {
					if strings.EqualFold(h.GetHeader().GetKey(), "x-decision") {
						got = append(got, h.GetHeader().GetValue())
					}
				}
				if len(got) != 1 || got[0] != id || seen[id] || response.GetDeniedResponse().GetStatus().GetCode() != 403 {
					t.Errorf("the client gets %q of the decision %s: %v", got, id, response)
				}
				seen[id] = true
			}
			if response, err := ask(t, s, identified("a")); err != nil || response.GetStatus().GetCode() != 0 || strings.Contains(response.GetOkResponse().String(), response.GetDynamicMetadata().GetFields()["decision_id"].GetStringValue()) {
				t.Errorf("an allowed client gets %v, %v", response, err)
			}
		})
	}
	for _, name := range []string{"", ":status", "a b", "Content-Length", "connection"} {
		if _, err := extauthz.WithDecisionIDHeader(name); err == nil {
			t.Errorf("%q is accepted as the name of the header", name)
		}
	}
}

package extauthz_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/contrib/propagators/b3"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/descriptorpb"

	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
)

// facts are the fields of an authz.Request that need no input document.
type facts struct {
	Operation                     authz.Operation
	Policy                        authz.PolicyID
	Method, Path, Host, Principal string
	Time                          time.Time
	Project                       authz.Project
}

func TestFacts(t *testing.T) {
	for name, tt := range map[string]struct {
		request *authv3.CheckRequest
		want    facts
	}{
		"request line": {
			checktest.HTTP(&authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/a/b?token=s3cr3t", Host: "shop.example"}),
			facts{Method: "GET", Path: "/a/b", Host: "shop.example"},
		},
		"a path that does not parse is still a fact": {
			checktest.HTTP(&authv3.AttributeContext_HttpRequest{Method: "GET", Path: "//a%zz?%"}),
			facts{Method: "GET", Path: "//a%zz"},
		},
		"headers": {
			checktest.HTTP(&authv3.AttributeContext_HttpRequest{Headers: map[string]string{":method": "PUT", ":path": "/x?y", ":authority": "h"}}),
			facts{Method: "PUT", Path: "/x", Host: "h"},
		},
		"raw headers, not UTF-8": {
			checktest.HTTP(&authv3.AttributeContext_HttpRequest{HeaderMap: checktest.RawHeaders(":method", "PUT", ":path", "/x\xff", ":Authority", "h")}),
			facts{Method: "PUT", Path: "/x\uFFFD", Host: "h"},
		},
		"route and principal": {
			&authv3.CheckRequest{Attributes: &authv3.AttributeContext{
				Source:            &authv3.AttributeContext_Peer{Principal: "spiffe://a/b"},
				ContextExtensions: map[string]string{"policy": "orders", "other": "x"},
			}},
			facts{Policy: "orders", Principal: "spiffe://a/b"},
		},
		"project": {
			&authv3.CheckRequest{Attributes: &authv3.AttributeContext{
				ContextExtensions: map[string]string{"project_id": "p", "project_name": "lab", "project_domain_name": "Default"},
			}},
			facts{Project: authz.Project{ID: "p", Name: "lab", Domain: "Default"}},
		},
		"a client's headers are no project": {
			checktest.HTTP(&authv3.AttributeContext_HttpRequest{Headers: map[string]string{"project_id": "p"}}), facts{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.want.Operation, tt.want.Time = authz.OperationCheck, servertest.Now
			for _, r := range []*authz.Request{capture(t, tt.request), captureWire(t, tt.request)} {
				got := facts{r.Operation, r.Policy, r.Method, r.Path, r.Host, r.Principal, r.Time, r.Project}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// captureWire is capture, of a request on the wire.
func captureWire(t *testing.T, request *authv3.CheckRequest) *authz.Request {
	var got *authz.Request
	checkWire(t, servertest.New(t, servertest.Decide(func(_ context.Context, r *authz.Request) authz.Decision {
		got = r
		return authz.Decision{}
	})), request)
	return got
}

func TestDecisionIDIsThatOfTheRequest(t *testing.T) {
	seen := make(map[string]bool)
	var id string
	s := servertest.New(t, servertest.Decide(func(_ context.Context, r *authz.Request) authz.Decision {
		id = r.ID
		return authz.Decision{Effect: authz.Allow, Plain: true}
	}))
	for range 100 {
		response := check(t, s, checktest.HTTP(&authv3.AttributeContext_HttpRequest{}))
		if got := response.DynamicMetadata.Fields["decision_id"].GetStringValue(); got != id || seen[got] || !servertest.UUID.MatchString(got) {
			t.Fatalf("decision_id %q, the request's is %q; fresh: %v", got, id, !seen[got])
		}
		seen[id] = true
	}
}

func TestEmptyRequestsAreDenied(t *testing.T) {
	for _, options := range [][]extauthz.Option{nil, {extauthz.OnFailureError()}} {
		s := servertest.New(t, servertest.Constant(authz.Decision{Effect: authz.Allow, Plain: true}), options...)
		for name, request := range map[string]*authv3.CheckRequest{"nil": nil, "empty": {}} {
			response := check(t, s, request)
			if response.GetStatus().GetCode() != int32(codes.PermissionDenied) || response.GetDeniedResponse().GetStatus().GetCode() != 400 {
				t.Errorf("%s: %v, want a denial with 400", name, response)
			}
		}
	}
}

func TestInputIsMadeOnDemand(t *testing.T) {
	// A request that does not parse is no matter to a policy that does not read it.
	request := checktest.HTTP(&authv3.AttributeContext_HttpRequest{Path: "/%zz"})
	response := check(t, servertest.New(t, servertest.Constant(authz.Decision{Effect: authz.Allow, Plain: true})), request)
	if response.GetStatus().GetCode() != int32(codes.OK) {
		t.Errorf("%v, want OK", response)
	}
	_, err := document(t, request)
	var bad *authz.BadRequest
	if !errors.As(err, &bad) {
		t.Errorf("input: %v, want a BadRequest", err)
	}
}

func TestFailures(t *testing.T) {
	for failure, code := range map[authz.Failure]codes.Code{
		authz.FailureUndefined:  codes.FailedPrecondition,
		authz.FailureType:       codes.FailedPrecondition,
		authz.FailureError:      codes.Internal,
		authz.FailureDeadline:   codes.DeadlineExceeded,
		authz.FailurePanic:      codes.Internal,
		authz.FailureNotReady:   codes.Unavailable,
		authz.FailureOverloaded: codes.ResourceExhausted,
		authz.FailureRequest:    codes.OK,
	} {
		t.Run(string(failure), func(t *testing.T) {
			d := servertest.Constant(authz.Decision{Failure: failure, Reason: "Why."})
			request := checktest.HTTP(&authv3.AttributeContext_HttpRequest{})
			response := check(t, servertest.New(t, d), request)
			fields := response.GetDynamicMetadata().AsMap()
			delete(fields, "decision_id")
			if diff := cmp.Diff(map[string]any{"failure": string(failure), "reason": "Why."}, fields); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
			want, body, headers := 403, "", 0
			switch failure {
			case authz.FailureRequest:
				want, body = 400, "request_parse_error: Why."
			case authz.FailureNotReady, authz.FailureOverloaded:
				want, headers = 503, 1
			}
			if got := response.GetDeniedResponse(); got.GetStatus().GetCode() != statusCode(want) || got.GetBody() != body || len(got.GetHeaders()) != headers {
				t.Errorf("%v, want a bare %d", got, want)
			}
			_, err := servertest.New(t, d, extauthz.OnFailureError()).Check(context.Background(), request)
			if status.Code(err) != code {
				t.Errorf("with OnFailureError: %v, want %s", err, code)
			}
		})
	}
}

func TestDescriptorSet(t *testing.T) {
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: new("a.proto"), Dependency: []string{"missing.proto"},
	}}}
	if _, err := extauthz.WithDescriptorSet(set); err == nil || !strings.Contains(err.Error(), "reading the descriptor set") {
		t.Errorf("a set without its imports: %v", err)
	}
	s := extauthz.New(servertest.ByPolicy(t, "package envoy.authz\ndefault allow := false\nallow if input.parsed_body == null"))
	response := check(t, s, checktest.HTTP(&authv3.AttributeContext_HttpRequest{
		Path: "/grpc.health.v1.Health/Check", Headers: map[string]string{"content-type": "application/grpc"}, RawBody: []byte("\x00\x00\x00\x00\x00"),
	}))
	if response.GetStatus().GetCode() != int32(codes.OK) {
		t.Errorf("without a set: %v, want that the body is null", response)
	}
}

func TestTraceOfTheRequest(t *testing.T) {
	const traceID, spanID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	both := extauthz.WithPropagator(propagation.NewCompositeTextMapPropagator(b3.New(), propagation.TraceContext{}))
	for name, tt := range map[string]struct {
		http    *authv3.AttributeContext_HttpRequest
		options []extauthz.Option
	}{
		"traceparent":             {http: &authv3.AttributeContext_HttpRequest{Headers: map[string]string{"traceparent": "00-" + traceID + "-" + spanID + "-01"}}},
		"traceparent, raw header": {http: &authv3.AttributeContext_HttpRequest{HeaderMap: checktest.RawHeaders("Traceparent", "00-"+traceID+"-"+spanID+"-01")}},
		"B3 in one header":        {&authv3.AttributeContext_HttpRequest{Headers: map[string]string{"b3": traceID + "-" + spanID + "-1"}}, []extauthz.Option{both}},
		"B3 in several headers": {&authv3.AttributeContext_HttpRequest{Headers: map[string]string{
			"x-b3-traceid": traceID, "x-b3-spanid": spanID, "x-b3-sampled": "1",
		}}, []extauthz.Option{both}},
	} {
		t.Run(name, func(t *testing.T) {
			var got trace.SpanContext
			s := servertest.New(t, servertest.Decide(func(_ context.Context, r *authz.Request) authz.Decision {
				got = r.Span()
				return authz.Decision{}
			}), tt.options...)
			check(t, s, checktest.HTTP(tt.http))
			if got.TraceID().String() != traceID || got.SpanID().String() != spanID || !got.IsRemote() {
				t.Errorf("span context %v", got)
			}
		})
	}
}

func TestOverGRPC(t *testing.T) {
	client := serveDecoded(t, servertest.New(t, servertest.ByPolicy(t, `package envoy.authz

default allow := false

allow if input.attributes.request.http.method == "GET"
`)))
	for method, want := range map[string]codes.Code{"GET": codes.OK, "POST": codes.PermissionDenied} {
		response, err := client.Check(context.Background(), checktest.HTTP(&authv3.AttributeContext_HttpRequest{Method: method, Path: "/"}))
		if err != nil || response.GetStatus().GetCode() != int32(want) {
			t.Errorf("%s: %v, %v, want %s", method, response, err, want)
		}
	}
}

// TestDeadline sees the deadline of the call end a rule that would take hours.
func TestDeadline(t *testing.T) {
	s := servertest.New(t, servertest.ByPolicy(t, `package envoy.authz

allow if {
	some a in numbers.range(1, 3000)
	some b in numbers.range(1, 3000)
	some c in numbers.range(1, 3000)
	a + b + c == 0
}
`))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	response, err := s.Check(ctx, checktest.HTTP(&authv3.AttributeContext_HttpRequest{}))
	if err != nil || response.GetDynamicMetadata().GetFields()["failure"].GetStringValue() != string(authz.FailureDeadline) {
		t.Errorf("%v, %v, want a denial because of the deadline", response, err)
	}
}

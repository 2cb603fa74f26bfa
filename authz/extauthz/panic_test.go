package extauthz_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/diagnostics"
	"understudy/authz/extauthz"
)

// panicking is a Decider that breaks.
type panicking struct{}

func (panicking) Check(context.Context, *authz.Request) authz.Decision { panic("broken") }

// TestPanicIsADenial: what breaks beside the policy costs one request, not the process,
// and that one is denied.
func TestPanicIsADenial(t *testing.T) {
	s, log := reporting(t, panicking{})
	request := httpRequest(&authv3.AttributeContext_HttpRequest{Path: "/"})
	decoded, err := s.Check(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	wire, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.CheckWire(context.Background(), wire)
	if err != nil {
		t.Fatal(err)
	}
	viewed := &authv3.CheckResponse{}
	if err := proto.Unmarshal(answer, viewed); err != nil {
		t.Fatal(err)
	}
	for _, response := range []*authv3.CheckResponse{decoded, viewed} {
		if code := response.GetStatus().GetCode(); code != 7 {
			t.Errorf("the status is %d, want 7", code)
		}
		if got := response.GetDynamicMetadata().GetFields()["failure"].GetStringValue(); got != string(authz.FailurePanic) {
			t.Errorf("the failure is %q, want PANIC", got)
		}
		if id := response.GetDynamicMetadata().GetFields()["decision_id"].GetStringValue(); !strings.Contains(log.String(), "decision_id="+id) {
			t.Errorf("the log does not know the decision %s:\n%s", id, log)
		}
	}
	if got := log.String(); strings.Count(got, "panicking.Check") != 2 || strings.Contains(got, "broken") {
		t.Errorf("the log is\n%s", got)
	}
}

// reporting is a Server that reports panics, with its log.
func reporting(t *testing.T, d extauthz.Decider) (*extauthz.Server, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	panics, err := diagnostics.NewPanics(slog.New(slog.NewTextHandler(log, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return extauthz.New(d, extauthz.WithPanics(panics)), log
}

// brokenBody panics where it is read.
type brokenBody struct{ io.ReadCloser }

func (brokenBody) Read([]byte) (int, error) { panic("broken") }

// TestPanicIsADenialOverHTTP: net/http would break the connection off, which is an error
// to a proxy, and one that may let the request pass.
func TestPanicIsADenialOverHTTP(t *testing.T) {
	s, log := reporting(t, panicking{})
	h, err := s.HTTPHandler(extauthz.HTTPConfig{PathPrefix: "/envoy"})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/envoy/x", nil)
	r.Body, r.ContentLength = brokenBody{}, 1
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 403 || w.Header().Get("X-Understudy-Failure") != string(authz.FailurePanic) {
		t.Errorf("got %d, %v", w.Code, w.Header())
	}
	if got := log.String(); !strings.Contains(got, "brokenBody.Read") || strings.Contains(got, "=broken") {
		t.Errorf("the log is\n%s", got)
	}
}

// TestLongNumbersAreRefused: comparing one takes the square of its length. It is
// refused where the policy looks at the body.
func TestLongNumbersAreRefused(t *testing.T) {
	for name, rule := range map[string]string{
		"read": "default allow := true\nallow := false if input.parsed_body.n > 5", "not read": "allow := true",
	} {
		s := newServer(t, byPolicy(t, "package envoy.authz\n"+rule))
		for digits, want := range map[int]int32{999: 0, 1001: 7, 60_000: 7, 300_000: 7} {
			switch {
			case rule == "allow := true":
				want = 0
			case digits == 999:
				want = 7 // the rule's own denial
			}
			body := `{"n": 1` + strings.Repeat("0", digits-1) + `}`
			response := checkWire(t, s, httpRequest(&authv3.AttributeContext_HttpRequest{
				Path: "/", Headers: map[string]string{"content-type": "application/json"}, Body: body,
			}))
			if got := response.GetStatus().GetCode(); got != want {
				t.Errorf("%s, %d digits: the status is %d, want %d", name, digits, got, want)
			}
		}
	}
}

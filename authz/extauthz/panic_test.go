package extauthz_test

import (
	"context"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
)

// TestPanicIsADenial: what breaks next to the policy costs one request, not the process,
// and that one is denied.
func TestPanicIsADenial(t *testing.T) {
	s, log := servertest.Reporting(t, servertest.Broken{})
	request := checktest.HTTP(&authv3.AttributeContext_HttpRequest{Path: "/"})
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
	if got := log.String(); strings.Count(got, "Broken.Check") != 2 || strings.Contains(got, "broken") {
		t.Errorf("the log is\n%s", got)
	}
}

// TestLongNumbersAreRefused: comparing one takes the square of its length. It is
// refused where the policy looks at the body.
func TestLongNumbersAreRefused(t *testing.T) {
	for name, rule := range map[string]string{
		"read": "default allow := true\nallow := false if input.parsed_body.n > 5", "not read": "allow := true",
	} {
		s := servertest.New(t, servertest.ByPolicy(t, "package envoy.authz\n"+rule))
		for digits, want := range map[int]int32{999: 0, 1001: 7, 60_000: 7, 300_000: 7} {
			switch {
			case rule == "allow := true":
				want = 0
			case digits == 999:
				want = 7 // the rule's own denial
			}
			body := `{"n": 1` + strings.Repeat("0", digits-1) + `}`
			response := checkWire(t, s, checktest.HTTP(&authv3.AttributeContext_HttpRequest{
				Path: "/", Headers: map[string]string{"content-type": "application/json"}, Body: body,
			}))
			if got := response.GetStatus().GetCode(); got != want {
				t.Errorf("%s, %d digits: the status is %d, want %d", name, digits, got, want)
			}
		}
	}
}

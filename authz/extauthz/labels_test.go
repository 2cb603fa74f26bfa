package extauthz_test

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
)

// TestEnvoyGetsNoLabels: neither the first answer, nor one from the cache, nor one that was
// made for another caller has anything of them; all are the same but for their IDs.
func TestEnvoyGetsNoLabels(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		s := servertest.New(t, servertest.Sidecar(t, map[authz.PolicyID]*adminpb.Policy{"labels": {
			Modules: map[string]string{"policy.rego": fmt.Sprintf(`package envoy.authz
allow := {"allowed": %v, "dynamic_metadata": {"a": "b"}, "headers": {"x-a": "b"}, "labels": {"user": input.attributes.request.http.headers["x-user"]}}`, allowed)},
			Rules: []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		}}))
		var first []byte
		for range 3 {
			for _, user := range []string{"u-ann", "u-bob"} {
				request := checktest.Istio()
				request.Attributes.ContextExtensions = map[string]string{"policy": "labels"}
				request.Attributes.Request.Http.Headers["x-user"] = user
				wire, err := proto.Marshal(request)
				if err != nil {
					t.Fatal(err)
				}
				out, err := s.CheckWire(t.Context(), wire)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(out, []byte("u-")) || bytes.Contains(out, []byte("label")) {
					t.Errorf("allowed=%v: Envoy gets %q", allowed, out)
				}
				if first == nil {
					first = out
				}
				if len(out) != len(first) {
					t.Errorf("allowed=%v: %s gets %q, want all to get %q but for the ID", allowed, user, out, first)
				}
			}
		}
	}
}

package extauthz_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
)

// BenchmarkWire answers requests as they come from the network, by a running sidecar:
// the same request again, which is a hit of the decision cache, and one whose path is always another.
func BenchmarkWire(b *testing.B) {
	policies := map[string]string{
		"prefix": `package envoy.authz

default allow := false

allow if {
	input.attributes.request.http.method == "GET"
	startswith(input.attributes.request.http.path, "/api/")
}
`,
		"token": `package envoy.authz

default allow := false

allow if {
	startswith(input.attributes.request.http.headers.authorization, "Bearer ")
	startswith(input.attributes.request.http.path, "/api/")
}
`,
		"address": `package envoy.authz

default allow := false

allow if {
	net.cidr_contains("10.0.0.0/8", input.attributes.source.address.socketAddress.address)
	startswith(input.attributes.request.http.path, "/api/")
}
`,
		"whole": `package envoy.authz

allow if count(input) > 3
`,
	}
	for name, module := range policies {
		id := authz.PolicyID(name)
		s := servertest.New(b, servertest.Sidecar(b, map[authz.PolicyID]*adminpb.Policy{id: {
			Modules: map[string]string{"policy.rego": module},
			Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		}}))
		same, fresh := wires(b, id, "/api/orders/%08d?expand=items")
		b.Run(name+"/same", func(b *testing.B) { benchWire(b, s, func(int) []byte { return same }) })
		b.Run(name+"/new", func(b *testing.B) { benchWire(b, s, fresh) })
	}
}

// wires returns a request, and a function whose requests have one path each.
func wires(b *testing.B, id authz.PolicyID, path string) (same []byte, fresh func(i int) []byte) {
	request := checktest.Istio()
	request.Attributes.ContextExtensions = map[string]string{"policy": string(id)}
	request.Attributes.Request.Http.Path = fmt.Sprintf(path, 0)
	wire, err := proto.Marshal(request)
	if err != nil {
		b.Fatal(err)
	}
	digits := bytes.Index(wire, []byte("00000000"))
	return wire, func(i int) []byte {
		out := bytes.Clone(wire)
		copy(out[digits:], fmt.Sprintf("%08d", i))
		return out
	}
}

func benchWire(b *testing.B, s *extauthz.Server, next func(i int) []byte) {
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		out, err := s.CheckWire(context.Background(), next(i))
		if err != nil || len(out) == 0 {
			b.Fatal(err)
		}
	}
}

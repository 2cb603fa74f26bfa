package policyfile_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"understudy/admin/policyfile"
	"understudy/authz/extauthz"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// TestSidecarsDecideByTheExample has two sidecars in two groups decide what Envoy
// asks, by the example with its two recipes: first in one group, then, by a
// promotion, in the other.
func TestSidecarsDecideByTheExample(t *testing.T) {
	example, err := os.ReadFile("../../deploy/examples/shop.lock.json")
	if err != nil {
		t.Fatal(err)
	}
	lock := seal(t, strings.Replace(withoutID(t, example), `"name": "shop"`, `"name": "web"`, 1))
	for _, b := range backends(t) {
		t.Run(b.name, func(t *testing.T) {
			s := serve(t, b.open(t), "p-traffic", false)
			dev, qa := s.ext(s.startNode("dev", "d1")), s.ext(s.startNode("qa", "q1"))

			// Stored, it decides nothing.
			s.must("POST", "/policies/web/revisions", lock)
			dev.want(403, "GET", "/public/x", "")
			s.must("POST", "/policy_groups/dev/policies/web", `{"revision_id":"`+idOf(t, lock)+`"}`)
			dev.want(200, "GET", "/public/x", "")
			dev.want(405, "DELETE", "/public/x", "spiffe://cluster.local/ns/shop/sa/a") // the first recipe
			dev.want(403, "POST", "/public/x", "")                                      // the second
			dev.want(200, "POST", "/public/x", "spiffe://cluster.local/ns/shop/sa/a")
			qa.want(403, "GET", "/public/x", "")

			s.must("PUT", "/policy_groups/dev", `{"name":"dev","next_group_name":"qa"}`)
			qa.want(403, "GET", "/public/x", "")
			s.must("POST", "/policy_groups/dev/promote", `{}`)
			qa.want(200, "GET", "/public/x", "")
			qa.want(405, "DELETE", "/public/x", "")

			// A lock for others leaves requests to the default decision.
			other := seal(t, `{"name":"web","run_list":["recipe[nginx::default]"],"cookbook_locks":{"nginx":{"version":"1.0.0","identifier":"f0"}}}`)
			s.must("PUT", "/policy_groups/dev/policies/web?allow_no_op=true", other)
			dev.want(403, "GET", "/public/x", "")
			qa.want(200, "GET", "/public/x", "")
			s.must("DELETE", "/policy_groups/qa", "")
			qa.want(403, "GET", "/public/x", "")
		})
	}
}

// withoutID takes the revision_id out of a lock.
func withoutID(t *testing.T, document []byte) string {
	lock, err := policyfile.Parse(document)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(document), `"revision_id": "`+lock.RevisionID+`",`, "", 1)
}

// envoy asks a sidecar as Envoy does.
type envoy struct {
	*testing.T
	client authv3.AuthorizationClient
}

func (s *server) ext(sidecar *sidecar.Sidecar) envoy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	rpc := grpc.NewServer(extauthz.ServerOption())
	extauthz.Register(rpc, extauthz.New(sidecar))
	go func() { _ = rpc.Serve(listener) }()
	s.Cleanup(rpc.Stop)
	connection, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = connection.Close() })
	return envoy{s.T, authv3.NewAuthorizationClient(connection)}
}

// want asks until the answer is the wanted one: on a busy machine a sidecar may apply a change after it was answered.
func (e envoy) want(status int, method, path, principal string) {
	e.Helper()
	var got int
	testkit.Await(e, fmt.Sprintf("%s %s is answered by %d", method, path, status), func() bool {
		got = e.ask(method, path, principal)
		return got == status
	}, func() any { return got })
}

// ask returns the status of the answer.
func (e envoy) ask(method, path, principal string) int {
	e.Helper()
	response, err := e.client.Check(e.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Principal: principal},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: method, Path: path, Host: "shop.example.com", Scheme: "http", Protocol: "HTTP/1.1",
		}},
	}})
	if err != nil {
		e.Fatal(err)
	}
	if response.GetStatus().GetCode() == int32(codes.OK) {
		return 200
	}
	if got := int(response.GetDeniedResponse().GetStatus().GetCode()); got != 0 {
		return got
	}
	return 403
}

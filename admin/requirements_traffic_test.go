package admin_test

import (
	"context"
	"strconv"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/cmd/testkit"
)

// checks are the options of TRAFFIC.
type checks struct {
	method, path, policy, body string
	// node is the only one to ask; empty means all.
	node    string
	headers map[string]string
	times   int
	want    int
}

// traffic is `TRAFFIC GET /x 200 times=10 policy=other node=n1@l2 header.cookie=x`.
func (r *row) traffic(rest string) {
	r.expectSuccess()
	c := r.parseChecks(rest)
	for name, n := range r.nodes {
		if n.check == nil || c.node != "" && c.node != name {
			continue
		}
		for range c.times {
			if got := r.ask(n.check, c); got != c.want {
				r.fatalf("%s answers %s %s with %d instead of %d", name, c.method, c.path, got, c.want)
			}
		}
	}
}

func (r *row) parseChecks(rest string) checks {
	c := checks{path: "/x", times: 1, headers: map[string]string{}}
	for i, f := range strings.Fields(r.expand(rest, plain)) {
		key, value, option := strings.Cut(f, "=")
		var err error
		switch {
		case i == 0:
			c.method = f
		case strings.HasPrefix(f, "/"):
			c.path = f
		case !option:
			c.want, err = strconv.Atoi(f)
		case key == "times":
			c.times, err = strconv.Atoi(value)
		case key == "policy":
			c.policy = value
		case key == "node":
			c.node = value
		case key == "body":
			c.body = value
		case strings.HasPrefix(key, "header."):
			c.headers[strings.TrimPrefix(key, "header.")] = value
		default:
			r.fatalf("TRAFFIC has no option %s", key)
		}
		if err != nil {
			r.fatalf("TRAFFIC %s: %v", f, err)
		}
	}
	return c
}

// ask sends one CheckRequest and returns the status that Envoy would let the
// client see: 200 if the request passes.
func (r *row) ask(client authv3.AuthorizationClient, c checks) int {
	request := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source:      &authv3.AttributeContext_Peer{Principal: "spiffe://cluster.local/ns/default/sa/client"},
		Destination: &authv3.AttributeContext_Peer{Principal: "spiffe://cluster.local/ns/default/sa/server"},
		Request: &authv3.AttributeContext_Request{
			Time: timestamppb.Now(),
			Http: &authv3.AttributeContext_HttpRequest{
				Id: "1", Method: c.method, Path: c.path, Host: "web.example.com", Scheme: "http", Protocol: "HTTP/1.1",
				Headers: c.headers, Body: c.body, Size: int64(len(c.body)),
			},
		},
	}}
	if c.policy != "" {
		request.Attributes.ContextExtensions = map[string]string{"policy": c.policy}
	}
	ctx, cancel := context.WithTimeout(r.Context(), testkit.Patience)
	defer cancel()
	response, err := client.Check(ctx, request)
	if err != nil {
		r.fatalf("check: %v", err)
	}
	return clientStatus(response)
}

func clientStatus(response *authv3.CheckResponse) int {
	if response.GetStatus().GetCode() == int32(codes.OK) {
		return 200
	}
	if code := int(response.GetDeniedResponse().GetStatus().GetCode()); code != 0 {
		return code
	}
	return 403
}

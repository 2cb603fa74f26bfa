package extauthz_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/authz"
)

// istioRequest is a request as Istio sends it: SPIFFE principals, 15 headers, a
// token of 800 bytes.
func istioRequest() *authv3.CheckRequest {
	headers := map[string]string{
		":authority": "orders.shop.svc.cluster.local", ":method": "GET", ":path": "/api/orders/17?expand=items", ":scheme": "http",
		"accept": "*/*", "accept-encoding": "gzip, deflate", "authorization": "Bearer " + strings.Repeat("x", 800),
		"user-agent": "Mozilla/5.0 (X11; Linux x86_64)", "x-forwarded-proto": "http", "x-request-id": "b1a7c9de-0000-4000-8000-000000000001",
		"x-b3-traceid": "0af7651916cd43dd8448eb211c80319c", "x-b3-spanid": "b7ad6b7169203331", "x-b3-sampled": "1",
		"x-envoy-attempt-count": "1", "x-forwarded-client-cert": "By=spiffe://cluster.local/ns/shop/sa/orders;Hash=0123;URI=spiffe://cluster.local/ns/shop/sa/web",
	}
	peer := func(address string, port uint32, account string) *authv3.AttributeContext_Peer {
		return &authv3.AttributeContext_Peer{
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
			}}},
			Principal: "spiffe://cluster.local/ns/shop/sa/" + account,
		}
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: peer("10.1.2.3", 61402, "web"), Destination: peer("10.1.2.4", 8080, "orders"),
		Request: &authv3.AttributeContext_Request{
			Time: &timestamppb.Timestamp{Seconds: 1_700_000_000, Nanos: 5},
			Http: &authv3.AttributeContext_HttpRequest{
				Id: "13359530607844510314", Method: "GET", Headers: headers, Path: headers[":path"], Host: headers[":authority"],
				Scheme: "http", Protocol: "HTTP/1.1",
			},
		},
		MetadataContext: &corev3.Metadata{}, RouteMetadataContext: &corev3.Metadata{},
	}}
}

// BenchmarkInput makes the whole input document.
func BenchmarkInput(b *testing.B) {
	var failed error
	s := newServer(b, decide(func(_ context.Context, r *authz.Request) authz.Decision {
		_, failed = r.Input(nil)
		return authz.Decision{Plain: true}
	}))
	request := istioRequest()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Check(context.Background(), request); err != nil || failed != nil {
			b.Fatal(err, failed)
		}
	}
}

// BenchmarkCheck answers without asking a policy.
func BenchmarkCheck(b *testing.B) {
	for name, d := range map[string]authz.Decision{
		"plain": {Verdict: authz.Allow, Plain: true},
		"headers": {
			Verdict: authz.Allow, Headers: fields("x-user", "alice", "x-role", "reader"),
			Metadata: map[string]any{"user": "alice"},
		},
		"denial": {HTTPStatus: 429, Body: fmt.Sprintf("%0100d", 1), Headers: fields("retry-after", "5")},
	} {
		b.Run(name, func(b *testing.B) {
			s := newServer(b, constant(d))
			request := istioRequest()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Check(context.Background(), request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

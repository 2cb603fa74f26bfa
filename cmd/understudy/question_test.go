package main

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// questionID is the ID of every request that a question is about, in hexadecimal.
var questionID = strings.Repeat("ab", 16)

// question is one request that a test asks about.
type question struct {
	method, path string
	// service is the calling service, token what it carries as a bearer, if anything.
	service, token string
}

// request is the question as Envoy's sidecar in a mesh asks it.
func (q question) request() *authv3.CheckRequest {
	headers := map[string]string{
		":authority": "shop.example.com", ":method": q.method, ":path": q.path, ":scheme": "https",
		"accept": "application/json", "content-type": "application/json", "user-agent": "shop-web/3.1",
		"x-request-id": questionID, "traceparent": "00-" + questionID + "-" + questionID[:16] + "-01",
		"cookie": "session=" + questionID,
	}
	if q.token != "" {
		headers["authorization"] = "Bearer " + q.token
	}
	peer := func(service, ip string, port uint32) *authv3.AttributeContext_Peer {
		return &authv3.AttributeContext_Peer{
			Principal: "spiffe://cluster.local/ns/shop/sa/" + service,
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: ip, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
			}}},
		}
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: peer(q.service, "10.4.1.7", 51234), Destination: peer("api", "10.4.2.9", 8443),
		Request: &authv3.AttributeContext_Request{
			Time: timestamppb.Now(),
			Http: &authv3.AttributeContext_HttpRequest{
				Id: questionID, Method: q.method, Path: q.path, Host: "shop.example.com", Scheme: "https", Protocol: "HTTP/2",
				Headers: headers,
			},
		},
	}}
}

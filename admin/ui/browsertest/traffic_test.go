package browsertest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"understudy/cmd/testkit"
)

// asked is a request of the mesh.
type asked struct{ method, path, principal string }

// shopTraffic is what services of the shop ask for. The example's experiment denies the web
// service its calls to /internal/stock.
var shopTraffic = []asked{
	{"GET", "/health", ""},
	{"GET", "/public/prices", ""},
	{"GET", "/internal/stock", service("web")},
	{"GET", "/internal/stock", service("warehouse")},
	{"GET", "/internal/prices", service("web")},
	{"GET", "/internal/prices", service("checkout")},
}

func service(name string) string { return "spiffe://cluster.local/ns/shop/sa/" + name }

// ask sends each sidecar its traffic, the last one given to all further ones, until the test
// ends.
func (m *mesh) ask(t *testing.T, traffic ...[]asked) {
	t.Helper()
	var ended atomic.Bool
	done := make(chan struct{})
	var clients []authv3.AuthorizationClient
	for _, address := range m.authz {
		clients = append(clients, newClient(t, address))
	}
	go func() {
		defer close(done)
		for i := 0; !ended.Load(); i++ {
			sidecar := i % len(clients)
			own := traffic[min(sidecar, len(traffic)-1)]
			_, _ = clients[sidecar].Check(t.Context(), own[i/len(clients)%len(own)].request())
			time.Sleep(5 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		ended.Store(true)
		testkit.Closed(t, "the traffic to end", done)
	})
}

// allows asks one sidecar once.
func (m *mesh) allows(t *testing.T, sidecar int, a asked) bool {
	t.Helper()
	answer, err := newClient(t, m.authz[sidecar]).Check(t.Context(), a.request())
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetStatus().GetCode() == int32(codes.OK)
}

func newClient(t *testing.T, address string) authv3.AuthorizationClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return authv3.NewAuthorizationClient(conn)
}

// request is what Envoy sends of it.
func (a asked) request() *authv3.CheckRequest {
	peer := &authv3.AttributeContext_Peer{
		Principal: a.principal,
		Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
			Address: "10.0.0.7", PortSpecifier: &core.SocketAddress_PortValue{PortValue: 40000},
		}}},
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: peer,
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: a.method, Path: a.path, Host: "shop.example.com", Scheme: "http", Protocol: "HTTP/1.1",
			Headers: map[string]string{":method": a.method, ":path": a.path},
		}},
	}}
}

// manyGroups is traffic that a policy which denies everything decides in more groups than a
// sidecar keeps: below ten areas, from the first one on.
func manyGroups(first int) (out []asked) {
	for i := range 100 {
		out = append(out, asked{"GET", fmt.Sprintf("/area-%d/part-%c", first+i/10, 'a'+i%10), service("web")})
	}
	return out
}

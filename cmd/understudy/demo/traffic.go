package demo

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// call is one request of the demo's traffic.
type call struct {
	method, path string
	// service is the calling service; user is whose token it carries, if any.
	service, user string
	// token is a JWT, and id the ID of the request in hexadecimal, of 32 characters.
	token string
	id    string
}

// principal is the caller's SPIFFE ID, as a mesh puts it into its certificate.
func (c call) principal() string { return "spiffe://cluster.local/ns/shop/sa/" + c.service }

// who names the caller for people.
func (c call) who() string {
	if c.user != "" {
		return c.user
	}
	return "service " + c.service
}

// request is the call as Envoy's sidecar in a mesh asks about it.
func (c call) request() *authv3.CheckRequest {
	headers := map[string]string{
		":authority": "shop.example.com", ":method": c.method, ":path": c.path, ":scheme": "https",
		"accept": "application/json", "accept-encoding": "gzip", "user-agent": "shop-web/3.1",
		"content-type": "application/json", "x-forwarded-for": "10.4.1.7", "x-forwarded-proto": "https",
		"x-request-id": c.id, "x-envoy-internal": "true", "x-envoy-attempt-count": "1",
		"traceparent": "00-" + c.id + "-" + c.id[:16] + "-01", "cookie": "session=" + c.id,
	}
	if c.token != "" {
		headers["authorization"] = "Bearer " + c.token
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source:      &authv3.AttributeContext_Peer{Principal: c.principal(), Address: socket("10.4.1.7", 51234)},
		Destination: &authv3.AttributeContext_Peer{Principal: "spiffe://cluster.local/ns/shop/sa/api", Address: socket("10.4.2.9", 8443)},
		Request: &authv3.AttributeContext_Request{
			Time: timestamppb.Now(),
			Http: &authv3.AttributeContext_HttpRequest{
				Id: c.id, Method: c.method, Path: c.path, Host: "shop.example.com", Scheme: "https", Protocol: "HTTP/2",
				Headers: headers,
			},
		},
	}}
}

// socket is an address of TCP.
func socket(ip string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: ip, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

// traffic makes the demo's requests: the same ones at each run.
type traffic struct {
	// random has a fixed seed.
	random *rand.Rand
	users  []user
}

// user is someone with a token.
type user struct {
	// name is the subject of the token.
	name  string
	token string
}

// mix is what the shop is asked for, with how often in a hundred requests.
var mix = []struct {
	share        int
	method, path string
	service      string
	users        []int
}{
	{28, "GET", "/public/catalog", "web", nil},
	{30, "GET", "/api/orders", "web", []int{0, 1, 2, 3}},
	{10, "POST", "/api/orders", "web", []int{0, 1, 2}},
	{6, "POST", "/api/refunds", "web", []int{3, 0}},
	{6, "GET", "/api/reports", "web", []int{3, 4}},
	{4, "DELETE", "/api/orders", "web", []int{2, 4}},
	{8, "GET", "/internal/stock", "checkout", nil},
	{5, "GET", "/internal/stock", "web", nil},
	{3, "GET", "/internal/prices", "web", nil},
}

// newTraffic begins from the same seed each time, so that two rounds of traffic can be
// compared.
func newTraffic() *traffic {
	t := &traffic{random: rand.New(rand.NewPCG(1, 2))}
	for _, u := range []struct{ name, role, plan string }{
		{"alice", "customer", "free"}, {"bob", "customer", "gold"}, {"carol", "customer", "free"},
		{"sam", "support", "free"}, {"ada", "admin", "free"},
	} {
		t.users = append(t.users, user{u.name, newToken(u.name, u.role, u.plan)})
	}
	return t
}

// newToken returns a signed token. The example policies read it without looking at
// the signature, which Envoy has verified before.
func newToken(subject, role, plan string) string {
	claims, _ := json.Marshal(map[string]any{
		"iss": "https://login.example.com", "sub": subject, "roles": []string{role}, "plan": plan,
		"exp": time.Now().Add(time.Hour).Unix(),
	})
	encode := base64.RawURLEncoding.EncodeToString
	unsigned := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode(claims)
	mac := hmac.New(sha256.New, []byte("the demo's key"))
	mac.Write([]byte(unsigned))
	return unsigned + "." + encode(mac.Sum(nil))
}

// next returns a request of the mix.
func (t *traffic) next() call {
	at := t.random.IntN(100)
	for _, m := range mix {
		if at -= m.share; at >= 0 {
			continue
		}
		if len(m.users) == 0 {
			return t.call(m.method, m.path, m.service, -1)
		}
		return t.call(m.method, m.path, m.service, m.users[t.random.IntN(len(m.users))])
	}
	return t.call("GET", "/public/catalog", "web", -1)
}

// call makes a request; who is the number of a user, or -1 for a service without one.
func (t *traffic) call(method, path, service string, who int) call {
	c := call{method: method, path: path, service: service, id: t.newID()}
	if who >= 0 {
		c.user, c.token = t.users[who].name, t.users[who].token
	}
	return c
}

// newID makes the ID of a request, the same ones at each run.
func (t *traffic) newID() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(t.random.Uint32())
	}
	return hex.EncodeToString(b[:])
}

// samples are some requests that show the live policy.
func (t *traffic) samples() []call {
	return []call{
		t.call("GET", "/public/catalog", "web", -1),
		t.call("POST", "/api/orders", "web", 0),
		t.call("POST", "/api/refunds", "web", 0),
		t.call("GET", "/api/reports", "web", 3),
		t.call("GET", "/internal/stock", "web", -1),
	}
}

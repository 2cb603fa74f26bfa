package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"understudy/admin/policyfile/signature/signaturetest"
	"understudy/cmd/testkit"
)

// The addresses of who attacks and of who does not: both are of this machine.
const attackersAddress, honestAddress = "127.0.0.1", "127.0.0.2"

// dialFrom connects from an address of this machine.
func dialFrom(ctx context.Context, address, to string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return d.DialContext(ctx, "tcp", to)
}

// unfinished are requests that anybody may send, by port, as their first bytes: none of them ever
// ends, for its rest does not come, or its answer is not read.
var unfinished = []struct {
	name, port string
	first      []byte
}{
	{"a probe", "admin", streams(false, []byte{0, 0, 0, 15, 0}, ":method", "POST", ":path", "/grpc.health.v1.Health/Check", "content-type", "application/grpc")},
	{"another call of gRPC", "admin", streams(false, []byte{0, 0, 0, 15, 0}, ":method", "POST", ":path", "/understudy.admin.v1.PolicyPreview/ListPolicies", "content-type", "application/grpc")},
	{"a login", "admin", streams(false, []byte("token="), ":method", "POST", ":path", "/ui/login", "content-type", "application/x-www-form-urlencoded")},
	{"the page of the login", "admin", streams(true, nil, ":method", "GET", ":path", "/ui/login")},
	{"the end of a login at the issuer", "admin", streams(true, nil, ":method", "GET", ":path", "/ui/callback?code=a&state=b")},
	{"an asset", "admin", streams(true, nil, ":method", "GET", ":path", "/ui/assets/ui.css")},
	{"the document of the API", "admin", streams(true, nil, ":method", "GET", ":path", "/openapi.json")},
	{"a call of REST", "admin", streams(false, []byte("{"), ":method", "POST", ":path", policies, "content-type", "application/json")},
	{"a call of Chef's API", "admin", streams(false, []byte("{"), ":method", "PUT", ":path", "/policy_groups/a/policies/b", "content-type", "application/json", "x-ops-sign", "version=1.3")},
	{"OPTIONS *", "admin", streams(false, []byte("{"), ":method", "OPTIONS", ":path", "*")},
	{"no call", "admin", nil},
	{"headers of HTTP/1", "admin", []byte("POST /ui/login HTTP/1.1\r\nHost: localhost\r\nA: ")},
	{"a body of HTTP/1", "admin", []byte("POST /ui/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\ntoken=")},
	{"the metrics", "health", streams(true, nil, ":method", "GET", ":path", "/metrics")},
	{"readiness", "health", streams(true, nil, ":method", "GET", ":path", "/readyz")},
}

// streams are the first bytes of a connection of HTTP/2 with 50 requests. Either their bodies have
// a piece and no end, or the client makes no room for what they are answered with.
func streams(ended bool, piece []byte, headers ...string) []byte {
	var out, block bytes.Buffer
	framer, encoder := http2.NewFramer(&out, nil), hpack.NewEncoder(&block)
	out.WriteString(http2.ClientPreface)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	_ = framer.WriteSettingsAck()
	for id := uint32(1); id < 101; id += 2 {
		block.Reset()
		for i, all := 0, append(headers, ":scheme", "http", ":authority", "localhost"); i < len(all); i += 2 {
			_ = encoder.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]})
		}
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: ended})
		if !ended {
			_ = framer.WriteData(id, false, piece)
		}
	}
	return out.Bytes()
}

// attack opens connections with first bytes, and calls during while they are there and after
// as many were ended as were too many. It returns when all are over.
func attack(t *testing.T, to string, first []byte, during func()) {
	t.Helper()
	const connections, most = 40, 32
	ended := make(chan struct{}, connections)
	var all []net.Conn
	for range connections {
		conn, err := dialFrom(t.Context(), attackersAddress, to)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		all = append(all, conn)
		go func() {
			_, _ = conn.Write(first) // the server may have ended it
			_, _ = io.Copy(io.Discard, conn)
			ended <- struct{}{}
		}()
	}
	for n := range connections - most {
		testkit.Receive(t, fmt.Sprintf("the server ends %d of %d connections; now %d", connections-most, connections, n), ended)
	}
	during()
	for _, conn := range all {
		_ = conn.Close()
	}
	for range most {
		testkit.Closed(t, "a client to end", ended)
	}
}

// honest is somebody with a token, at an address of their own.
type honest struct {
	*testing.T
	*running
	client *http.Client
	token  string
}

// newHonest returns a client that keeps no connection.
func newHonest(t *testing.T, r *running, token string) *honest {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, to string) (net.Conn, error) {
		return dialFrom(ctx, honestAddress, to)
	}}
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &honest{t, r, &http.Client{Transport: transport, CheckRedirect: noRedirect}, token}
}

// begin sends a request, by somebody who is known if with says so, and returns the answer.
func (h *honest) begin(port, method, path, contentType string, body io.Reader, known bool) (*http.Response, error) {
	r, err := http.NewRequestWithContext(h.Context(), method, "http://"+h.bound[port]+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", contentType)
	if known {
		r.Header.Set("Authorization", "Bearer "+h.token)
	}
	return h.client.Do(r)
}

// expect sends a request and compares the status of the answer, which it reads.
func (h *honest) expect(status int, port, method, path, contentType, body string, known bool) string {
	h.Helper()
	response, err := h.begin(port, method, path, contentType, strings.NewReader(body), known)
	if err != nil {
		h.Errorf("%s %s: %v", method, path, err)
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status {
		h.Errorf("%s %s: got %d, %v, want %d", method, path, response.StatusCode, err, status)
	}
	return string(content)
}

// probe asks for health by gRPC.
func (h *honest) probe() {
	h.Helper()
	conn, err := grpc.NewClient("passthrough:///"+h.bound["admin"], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return dialFrom(ctx, honestAddress, to) }))
	if err != nil {
		h.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	health, err := grpc_health_v1.NewHealthClient(conn).Check(h.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || health.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		h.Errorf("a probe: %v, %v", health, err)
	}
}

// anyPolicy is the content of a policy that allows everything.
const anyPolicy = `{"displayName": "%s", "rules": [{"rego": {}}], "modules": {"a.rego": "package envoy.authz\n\nallow := true\n"}}`

// The types of what is sent.
const jsonType, formType = "application/json", "application/x-www-form-urlencoded"

// watch looks at the page of a policy, live. What it returns changes the policy, and waits until
// the page says so.
func (h *honest) watch(policy string) (change func()) {
	r, err := http.NewRequestWithContext(h.Context(), "GET", "http://"+h.bound["admin"]+"/ui/"+policy, nil)
	if err != nil {
		h.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+h.token)
	r.Header.Set("Accept", "text/event-stream")
	response, err := h.client.Do(r)
	if err != nil || response.StatusCode != 200 {
		h.Fatal(response, err)
	}
	h.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	version := func() string {
		for lines.Scan() {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				return data
			}
		}
		h.Errorf("the live page ended: %v", lines.Err())
		return ""
	}
	before := version()
	return func() {
		h.expect(200, "admin", "PATCH", "/v1/"+policy+"?updateMask=displayName", jsonType, `{"displayName": "changed"}`, true)
		if after := version(); after == before || after == "gone" {
			h.Errorf("the live page is at version %s after %s", after, before)
		}
	}
}

// upload sends the first half of a policy. What it returns sends the other one.
func (h *honest) upload(path, content string) (finish func()) {
	body, rest := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		response, err := h.begin("admin", "POST", path, jsonType, body, true)
		if err != nil {
			h.Errorf("an upload: %v", err)
			return
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != 200 {
			h.Errorf("an upload is answered with %s", response.Status)
		}
	}()
	send := func(part string) {
		if _, err := io.WriteString(rest, part); err != nil {
			h.Errorf("an upload: %v", err)
		}
	}
	send(content[:len(content)/2])
	return func() {
		send(content[len(content)/2:])
		_ = rest.Close()
		testkit.Closed(h, "the traffic to end", done)
	}
}

// TestUnknownCallersCostLittle: whatever strangers leave unfinished at any path, few of them have
// something here, and others are served: who logs in, who asks for health, who is known already,
// and live checks.
func TestUnknownCallersCostLittle(t *testing.T) {
	t.Parallel()
	token, file := newToken(t, "ci")
	r := startServer(t, func(c *config) {
		c.adminTokenFiles, c.owners = []string{file}, []string{"token:ci"}
		c.chefKeys = []string{"alice=" + signaturetest.PublicFile(t, signaturetest.Key())}
	})
	h := newHonest(t, r, token)
	h.expect(200, "admin", "POST", policies+"?policyId=shop", jsonType, fmt.Sprintf(anyPolicy, "first"), true)
	for answer := (*authv3.CheckResponse)(nil); answer.GetStatus() == nil || answer.GetStatus().GetCode() != 0; {
		var err error
		if answer, err = r.authz.Check(t.Context(), plainCheck(t)); err != nil {
			t.Fatal(err)
		}
	}
	change := h.watch(strings.TrimPrefix(policies, "/v1/") + "/shop")
	for i, a := range unfinished {
		t.Run(a.name, func(t *testing.T) {
			h := newHonest(t, r, token)
			finish := h.upload(fmt.Sprintf("%s?policyId=slow%d", policies, i), fmt.Sprintf(anyPolicy, strings.Repeat("x", 60)))
			attack(t, r.bound[a.port], a.first, func() {
				page := h.expect(200, "health", "GET", "/metrics", "", "", false)
				for kind, most := range map[string]float64{"calls": 8 + 1, "connections": 32 + 1, "bytes": 512<<10 + 4<<10} { // with this one
					series := fmt.Sprintf(`understudy_unknown_callers\{kind="%s",port="%s"\}`, kind, a.port)
					if got := sum(page, series); got > most || !strings.Contains(page, `understudy_unknown_callers{kind="`+kind+`"`) {
						t.Errorf("strangers of one address have %v %s, want %v at most", got, kind, most)
					}
				}
				h.expect(303, "admin", "POST", "/ui/login", formType, url.Values{"token": {token}}.Encode(), false)
				h.expect(200, "admin", "GET", "/whoami", "", "", true)
				h.expect(200, "health", "GET", "/readyz", "", "", false)
				h.probe()
				if answer, err := r.authz.Check(t.Context(), plainCheck(t)); err != nil || answer.GetStatus().GetCode() != 0 {
					t.Errorf("a live check: %v, %v", answer, err)
				}
				finish()
			})
		})
	}
	change()
}

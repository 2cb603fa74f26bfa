package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"understudy/cmd/testkit"
	"understudy/cmd/understudy/port"
)

func withHTTP(c *config) { c.httpAuthzAddr, c.httpAuthzPathPrefix = "127.0.0.1:0", "/envoy" }

// ask sends a request to the port for HTTP and returns the answer's status.
func (r *running) ask(t *testing.T, head string) int {
	t.Helper()
	network, addr := "tcp", r.bound["http-authz"]
	if path, unix := strings.CutPrefix(addr, port.UnixScheme); unix {
		network, addr = "unix", path
	}
	conn, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

const (
	envoyQuestion   = " /envoy/x?q=secret HTTP/1.1\nHost: shop.example\nAuthorization: secret\ntraceparent: 00-abababababababababababababababab-0102030405060708-01"
	forwardQuestion = "GET /forward-auth HTTP/1.1\nHost: understudy\nX-Forwarded-Uri: /x\nX-Forwarded-Host: shop.example\nX-Forwarded-Proto: https\nX-Forwarded-For: 192.0.2.1\nX-Forwarded-Method: "
)

// TestHTTPQuestionsAreRecorded asks over HTTP and receives the same record as of a
// question over gRPC.
func TestHTTPQuestionsAreRecorded(t *testing.T) {
	c := newCollector()
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", c.listenGRPC(t))
	t.Setenv("OTEL_BLRP_SCHEDULE_DELAY", "20")
	r := startServer(t, withHTTP)
	r.preview(t)
	if code := r.ask(t, "GET"+envoyQuestion); code != 200 {
		t.Errorf("GET is answered with %d", code)
	}
	checkRecord(t, testkit.Receive(t, "a preview record", c.records))
	for question, want := range map[string]int{
		"POST" + envoyQuestion: 403, forwardQuestion + "GET": 200, forwardQuestion + "POST": 403,
		"GET /x HTTP/1.1\nHost: shop.example":                  404,
		"GET /envoy@nobody/x HTTP/1.1\nHost: shop.example":     403,
		"GET /envoy@shop/x HTTP/1.1\nHost: shop.example":       200,
		"GET /envoy/%zz HTTP/1.1\nHost: shop.example":          400,
		"GET /envoy/" + strings.Repeat("x", 1<<20) + " HTTP/1": 400,
	} {
		if code := r.ask(t, question); code != want && (want != 400 || code < 400 || code >= 500) {
			t.Errorf("%.40q is answered with %d, want %d", question, code, want)
		}
	}
	if code, body := r.call(t, "health", "GET", "/readyz", ""); code != 200 || !strings.Contains(body, r.bound["http-authz"]) {
		t.Errorf("readiness is %d %s", code, body)
	}
}

// TestHTTPWithoutPrefix: net/http has answers of its own, which no policy made.
func TestHTTPWithoutPrefix(t *testing.T) {
	t.Parallel()
	r := startServer(t, func(c *config) {
		c.httpAuthzAddr, c.httpAuthzPathPrefix = port.UnixScheme+filepath.Join(t.TempDir(), "http.sock"), "/"
	})
	r.preview(t)
	for question, want := range map[string]int{
		"OPTIONS * HTTP/1.1\nHost: shop.example":                    403,
		"OPTIONS /x HTTP/1.1\nHost: shop.example":                   403,
		"GET /x HTTP/1.1\nHost: shop.example":                       200,
		"POST /x HTTP/1.1\nHost: shop.example":                      403,
		"CONNECT shop.example:443 HTTP/1.1\nHost: shop.example:443": 404,
		// A path as any other here, and not that of a form.
		strings.Replace(forwardQuestion, "GET /", "POST /", 1) + "GET": 403,
	} {
		if code := r.ask(t, question); code != want {
			t.Errorf("%.40q is answered with %d, want %d", question, code, want)
		}
	}
}

// TestHTTPQuestionUnderWayIsAnswered stops the server in the middle of a question.
func TestHTTPQuestionUnderWayIsAnswered(t *testing.T) {
	t.Parallel()
	r := startServer(t, withHTTP)
	r.preview(t)
	conn, err := net.Dial("tcp", r.bound["http-authz"])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	// The interim answer to Expect says that the question is being read.
	head := "GET /envoy/x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("the interim answer is %q, %v", line, err)
	}
	if _, err := answers.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r.refuses(t, "http-authz")
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("the question under way is answered with %d", response.StatusCode)
	}
}

// refuses waits until a port takes no more connections.
func (r *running) refuses(t *testing.T, port string) {
	t.Helper()
	awaitClosed(t, "tcp", r.bound[port])
}

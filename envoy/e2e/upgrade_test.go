//go:build realenvoy

package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// newEcho serves until the test ends, and returns its address: it answers a handshake of a WebSocket, and sends back
// each byte behind it.
func newEcho(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: Upgrade\r\n\r\n", r.Header.Get("Upgrade"))
		_, _ = io.Copy(conn, buffered)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestWebSockets: the handshake is decided like any request, and what follows passes.
func TestWebSockets(t *testing.T) {
	t.Parallel()
	s := newSidecar(t)
	s.apply(t, "web", "testdata/web.rego")
	e := newEnvoy(t, shipped(t, "envoy.yaml").local(t, newEcho(t)).move(t, "understudy", 9191, s.listening.Authz))
	for path, want := range map[string]int{"/public/socket": http.StatusSwitchingProtocols, "/closed/socket": http.StatusForbidden} {
		conn, err := net.Dial("tcp", e.at["ingress"])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: shop\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path)
		in := bufio.NewReader(conn)
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s is answered with %d, want %d", path, response.StatusCode, want)
		}
		if want != http.StatusSwitchingProtocols || response.StatusCode != want {
			continue
		}
		const message = "behind the handshake"
		got := make([]byte, len(message))
		_, _ = io.WriteString(conn, message)
		if _, err := io.ReadFull(in, got); err != nil || string(got) != message {
			t.Errorf("%q came back, %v; want %q", got, err, message)
		}
	}
}

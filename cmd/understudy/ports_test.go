package main

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"understudy/cmd/testkit"
	"understudy/cmd/understudy/lifecycle"
	"understudy/cmd/understudy/port"
)

// opened is a server whose ports are bound and not served, with all ports there are.
func opened(t *testing.T) *server {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := demoConfig(t.TempDir())
	withHTTP(&c)
	c.reservations = reservationConfig{policy: "usage", addr: "127.0.0.1:0", basePath: "/", tokens: []string{token}, concurrency: 1}
	closers := &lifecycle.Closers{}
	s, err := newServer(t.Context(), c, nil, slog.New(slog.DiscardHandler), closers)
	t.Cleanup(func() {
		if err := closers.Close(lifecycle.NewEnding(testkit.Patience, nil), slog.New(slog.DiscardHandler)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	return s
}

// limits are the bounds of a port on its clients.
type limits struct {
	header, read, write, idle time.Duration
	headerBytes               int
}

// TestPortsBoundTheirClients: each port has the limits that what it serves can bear. None
// of them is without one for headers and for silence.
func TestPortsBoundTheirClients(t *testing.T) {
	t.Parallel()
	s := opened(t)
	reservations := s.parts[1].(*reservationPort)
	for name, c := range map[string]struct {
		server *http.Server
		want   limits
	}{
		"health": {s.health.http, limits{header: port.HeaderTimeout, read: port.HeaderTimeout, write: port.AnswerTimeout, idle: 3 * time.Minute, headerBytes: 64 << 10}},
		// A call of the admin API may wait for an operation: its bodies and answers are bounded
		// one by one (port.UsualPace).
		"admin": {s.health.admin.http, limits{header: port.HeaderTimeout, idle: 3 * time.Minute, headerBytes: 64 << 10}},
		"http-authz": {s.health.authz.http, limits{
			header: port.HeaderTimeout, read: checkTimeout, write: 2*checkTimeout + s.config.decisionTimeout,
			idle: idleTimeout, headerBytes: checkHeaders,
		}},
		// An answer of a reservation check takes as long as the services that its policy asks.
		"reservation": {reservations.http, limits{
			header: port.HeaderTimeout, read: reservationTimeout, idle: reservationTimeout, headerBytes: maxReservationHeader,
		}},
	} {
		got := limits{c.server.ReadHeaderTimeout, c.server.ReadTimeout, c.server.WriteTimeout, c.server.IdleTimeout, c.server.MaxHeaderBytes}
		if got != c.want {
			t.Errorf("%s: the limits are %+v, want %+v", name, got, c.want)
		}
	}
	for name, server := range map[string]*http.Server{
		"health": s.health.http, "admin": s.health.admin.http, "http-authz": s.health.authz.http, "reservation": reservations.http,
	} {
		if !server.DisableGeneralOptionsHandler {
			t.Errorf("%s: `OPTIONS *` is answered by net/http, which denies nothing", name)
		}
	}
}

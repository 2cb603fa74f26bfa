package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/cmd/testkit"
)

// answerKind is OK, the status of a denial, or a gRPC error's code.
func answerKind(response *authv3.CheckResponse, err error) string {
	switch {
	case err != nil:
		return status.Code(err).String()
	case codes.Code(response.GetStatus().GetCode()) == codes.OK:
		return "OK"
	}
	return fmt.Sprint(int(response.GetDeniedResponse().GetStatus().GetCode()))
}

// awaitAnswer waits until a check is answered with OK, the status of a denial, or a gRPC error's
// code.
func (r *running) awaitAnswer(t *testing.T, request *authv3.CheckRequest, want string) {
	t.Helper()
	var got string
	testkit.Await(t, "a check is answered with "+want, func() bool {
		response, err := r.authz.Check(t.Context(), request)
		got = answerKind(response, err)
		return got == want
	}, func() any { return got })
}

// TestAPortInUseFailsAtOnce: that the port is opened late does not make its mistakes late.
func TestAPortInUseFailsAtOnce(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c := demoConfig(t.TempDir())
	c.authzAddr, c.Store = l.Addr().String(), "redis://127.0.0.1:1" // nothing will ever be loaded
	err = serve(t.Context(), c, nil, t.Output(), func(map[string]string) { t.Error("it has started") })
	if err == nil || !strings.Contains(err.Error(), "--authz-addr "+c.authzAddr) {
		t.Errorf("got %v; want an error that names the flag", err)
	}
}

// TestAPortIsNotOpenedBeforeAnyoneCanDecide, but for a while only.
func TestAPortIsNotOpenedBeforeAnyoneCanDecide(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{"ready": time.Second, "never ready": listenPatience} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, ready := time.Now(), make(chan struct{})
				if name == "ready" {
					time.AfterFunc(after, func() { close(ready) })
				}
				if !awaitAtMost(t.Context(), ready, listenPatience) || time.Since(begin) != after {
					t.Errorf("the wait took %s, want %s", time.Since(begin), after)
				}
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if awaitAtMost(ctx, nil, time.Hour) {
		t.Error("a server that is stopped opens its port")
	}
}

// TestAPortThatIsReservedRefuses: a connection is refused and not held until somebody
// accepts it. That of an observer is open from the start, for it refuses nobody.
func TestAPortThatIsReservedRefuses(t *testing.T) {
	t.Parallel()
	for _, observe := range []bool{false, true} {
		c := demoConfig(t.TempDir())
		c.authzAddr, c.observe = testkit.FreeAddress(), observe
		s := &server{config: c, ports: newPorts(c.portsConfig, noop.NewMeterProvider(), slog.New(slog.DiscardHandler))}
		if err := (&authzPort{server: s}).reserve(t.Context()); err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", s.bound["authz"])
		if open := err == nil; open != observe || !open && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("observing %v: to connect gives %v", observe, err)
		}
		if err == nil {
			_ = conn.Close()
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAnObserverListensAtOnce: with nothing to decide by it passes everybody.
func TestAnObserverListensAtOnce(t *testing.T) {
	t.Parallel()
	r := startServer(t, func(c *config) { c.authzAddr, c.Store, c.observe = testkit.FreeAddress(), "redis://127.0.0.1:1", true })
	response, err := r.authz.Check(t.Context(), plainCheck(t))
	observed := response.GetDynamicMetadata().GetFields()["observed"].GetStructValue().GetFields()
	if answerKind(response, err) != "OK" || observed["failure"].GetStringValue() != "NOT_READY" {
		t.Errorf("got %v, %v; want OK, and that it is not ready", response, err)
	}
}

// TestWhoCannotDecideSaysSo answers 503 when the wait is over and there is no store.
func TestWhoCannotDecideSaysSo(t *testing.T) {
	t.Parallel()
	r := startServer(t, func(c *config) { c.authzAddr, c.Store = testkit.FreeAddress(), "redis://127.0.0.1:1" })
	response, err := r.authz.Check(t.Context(), plainCheck(t), grpc.WaitForReady(true))
	if got := answerKind(response, err); got != "503" {
		t.Errorf("got %s, want 503: %v, %v", got, response, err)
	}
	headers := response.GetDeniedResponse().GetHeaders()
	if len(headers) != 1 || headers[0].GetHeader().GetKey() != "retry-after" {
		t.Errorf("the headers are %v, want retry-after", headers)
	}
	if code, _ := r.call(t, "health", "GET", "/readyz", ""); code != 503 {
		t.Errorf("/readyz is %d, want 503", code)
	}
}

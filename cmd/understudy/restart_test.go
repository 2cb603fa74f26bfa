package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"understudy/cmd/understudy/storage"
)

// load asks for a path that is allowed, on and on, and counts the answers.
type load struct {
	mu sync.Mutex
	// answers :: OK, a denial's status or a gRPC code → how many.
	answers map[string]int
	// counted has room for one notice that something was counted.
	counted chan struct{}
}

// publicCheck asks for what is allowed.
func publicCheck(t *testing.T) *authv3.CheckRequest {
	request := plainCheck(t)
	request.Attributes.Request.Http.Path = "/public/x"
	return request
}

// run asks until ctx is done. A lost connection is tried again at once, as Envoy does.
func (l *load) run(ctx context.Context, t *testing.T, addr string) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Millisecond, MaxDelay: 5 * time.Millisecond, Multiplier: 2}}))
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	client, ticker := authv3.NewAuthorizationClient(conn), time.NewTicker(5*time.Millisecond)
	defer ticker.Stop()
	for ctx.Err() == nil {
		<-ticker.C // what is refused at once would take the processors from the one who starts
		response, err := client.Check(ctx, publicCheck(t))
		if ctx.Err() == nil {
			l.count(response, err)
		}
	}
}

func (l *load) count(response *authv3.CheckResponse, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[answerKind(response, err)]++
	select {
	case l.counted <- struct{}{}:
	default:
	}
}

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

func (l *load) of(answer string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers[answer]
}

// await returns when there are so many more answers of a kind.
func (l *load) await(t *testing.T, answer string, more int) {
	t.Helper()
	want := l.of(answer) + more
	for late := time.After(scriptTime); l.of(answer) < want; {
		select {
		case <-l.counted:
		case <-late:
			t.Fatalf("%d answers %s, want %d", l.of(answer), answer, want)
		}
	}
}

// TestARestartUnderLoadRefusesNobody kills a process and starts it again, while others
// ask for what is allowed: they may get the answer that nobody can decide, and never that they
// may not. Its policy takes a while to be compiled.
func TestARestartUnderLoadRefusesNobody(t *testing.T) {
	t.Parallel()
	addr := freePort(t)
	flags := []string{
		"--authz-addr", addr, "--policy", "shop", "--location", "projects/p1/locations/l1",
		"--store", storage.BoltScheme + filepath.Join(t.TempDir(), "understudy.db"),
	}
	r := startProcess(t, flags...)
	r.awaitReady(t)
	if code, body := r.call(t, "admin", "POST", policies+"?policyId=shop", slowToCompile(t)); code != 200 {
		t.Fatalf("the policy is answered with %d %.300s", code, body)
	}
	r.awaitAllowed(t)
	l := &load{answers: make(map[string]int), counted: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() { l.run(ctx, t, addr) })
	}
	l.await(t, "OK", 100)
	for range 2 {
		kill(t, r.process)
		r = startProcess(t, flags...)
		l.await(t, "OK", 200)
	}
	stop()
	running.Wait()
	t.Logf("answers: %v", l.answers)
	if l.of("403") > 0 || l.of("Unavailable") == 0 {
		t.Errorf("answers: %v; want no 403, and some Unavailable", l.answers)
	}
}

// slowToCompile is a policy of 1.4 MiB.
func slowToCompile(t *testing.T) string {
	t.Helper()
	var module strings.Builder
	module.WriteString("package envoy.authz\ndefault allow := false\nallow if startswith(input.attributes.request.http.path, \"/public/\")\n")
	rules := 7000
	if testing.Short() {
		rules = 1500 // under the race detector they take as long
	}
	for i := range rules {
		fmt.Fprintf(&module, "rule_%d if {\n\tinput.attributes.request.http.path == \"/%s/%d\"\n\tinput.attributes.request.http.method in {\"GET\", \"PUT\"}\n}\n",
			i, strings.Repeat("x", 60), i)
	}
	body, err := json.Marshal(map[string]any{"rules": []any{map[string]any{"rego": map[string]any{}}}, "modules": map[string]string{"a.rego": module.String()}})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// awaitAllowed returns when the policy decides.
func (r *running) awaitAllowed(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(scriptTime); ; {
		response, err := r.authz.Check(t.Context(), publicCheck(t))
		if answerKind(response, err) == "OK" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the policy does not allow: %v, %v", response, err)
		}
	}
}

// kill ends a process as a crash does, and returns when it is gone.
func kill(t *testing.T, process *os.Process) {
	t.Helper()
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Wait(); err != nil {
		t.Fatal(err)
	}
}

// freePort returns an address that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// TestAPortInUseFailsAtOnce: that the port is opened late does not make its mistakes late.
func TestAPortInUseFailsAtOnce(t *testing.T) {
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
	for _, observe := range []bool{false, true} {
		c := demoConfig(t.TempDir())
		c.authzAddr, c.observe = freePort(t), observe
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
	r := startServer(t, func(c *config) { c.authzAddr, c.Store, c.observe = freePort(t), "redis://127.0.0.1:1", true })
	response, err := r.authz.Check(t.Context(), plainCheck(t))
	observed := response.GetDynamicMetadata().GetFields()["observed"].GetStructValue().GetFields()
	if answerKind(response, err) != "OK" || observed["failure"].GetStringValue() != "NOT_READY" {
		t.Errorf("got %v, %v; want OK, and that it is not ready", response, err)
	}
}

// TestWhoCannotDecideSaysSo answers 503 when the wait is over and there is no store.
func TestWhoCannotDecideSaysSo(t *testing.T) {
	t.Parallel()
	r := startServer(t, func(c *config) { c.authzAddr, c.Store = freePort(t), "redis://127.0.0.1:1" })
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

//go:build nightly

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"understudy/cmd/testkit"
	"understudy/cmd/understudy/storage"
)

// load asks for a path that is allowed, on and on, and counts the answers.
type load struct {
	mu sync.Mutex
	// answers :: OK, a denial's status or a gRPC code → how many.
	answers map[string]int
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
	client, pace := authv3.NewAuthorizationClient(conn), time.NewTicker(5*time.Millisecond)
	defer pace.Stop()
	for ctx.Err() == nil {
		<-pace.C // what is refused at once would take the processors from the one who starts
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
	testkit.Await(t, fmt.Sprintf("%d answers %s", want, answer), func() bool { return l.of(answer) >= want }, func() any { return l.of(answer) })
}

// TestARestartUnderLoadRefusesNobody kills a process and starts it again, while others
// ask for what is allowed: they may get the answer that nobody can decide, and never that they
// may not. Its policy takes a while to be compiled.
func TestARestartUnderLoadRefusesNobody(t *testing.T) {
	t.Parallel()
	addr := testkit.FreeAddress()
	flags := []string{
		"--authz-addr", addr, "--policy", "shop", "--location", "projects/p1/locations/l1",
		"--store", storage.BoltScheme + filepath.Join(t.TempDir(), "understudy.db"),
	}
	r := startProcess(t, flags...)
	r.awaitReady(t)
	if code, body := r.call(t, "admin", "POST", policies+"?policyId=shop", slowToCompile(t)); code != 200 {
		t.Fatalf("the policy is answered with %d %.300s", code, body)
	}
	r.awaitAnswer(t, publicCheck(t), "OK")
	l := &load{answers: make(map[string]int)}
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
	for i := range 7000 {
		fmt.Fprintf(&module, "rule_%d if {\n\tinput.attributes.request.http.path == \"/%s/%d\"\n\tinput.attributes.request.http.method in {\"GET\", \"PUT\"}\n}\n",
			i, strings.Repeat("x", 60), i)
	}
	body, err := json.Marshal(map[string]any{"rules": []any{map[string]any{"rego": map[string]any{}}}, "modules": map[string]string{"a.rego": module.String()}})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
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

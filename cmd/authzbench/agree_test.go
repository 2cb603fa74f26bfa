package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

// TestMain lets the test binary be what authzbench starts itself as.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "server" {
		main()
		return
	}
	// A busy machine is no slow policy. The servers inherit it.
	_ = os.Setenv("UNDERSTUDY_DECISION_TIMEOUT", "30s")
	folder, err := os.MkdirTemp("", "authzbench-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = sync.OnceValues(func() (string, error) {
		if binary := os.Getenv("UNDERSTUDY"); binary != "" {
			return binary, nil
		}
		return buildUnderstudy(context.Background(), folder)
	})
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// built builds understudy once for all tests, unless $UNDERSTUDY names one that was built already.
var built func() (string, error)

func newTestStarter(t *testing.T, servers ...string) *starter {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	s := &starter{folder: t.TempDir(), connections: 2, servers: servers, understudies: []understudy{{name: "understudy", binary: binary}}}
	var generator cpuList
	if err := splitProcessors(&s.cpus, &generator); err != nil {
		t.Fatal(err)
	}
	s.cpus = generator
	return s
}

// TestServersAgree asks all servers the same, by every policy.
func TestServersAgree(t *testing.T) {
	k, err := newKeys()
	if err != nil {
		t.Fatal(err)
	}
	start := newTestStarter(t, "noop", "stock", "understudy")
	for _, name := range policyNames {
		t.Run(name, func(t *testing.T) {
			p, err := newPolicy(name, k)
			if err != nil {
				t.Fatal(err)
			}
			f, err := start.start(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			defer f.stop()
			for _, kind := range trafficKinds {
				traffic, err := newTraffic(kind, p, k)
				if err != nil {
					t.Fatal(err)
				}
				if err := f.agree(t.Context(), traffic); err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			}
		})
	}
}

// TestDisagreementIsSeen: a server that allows everything must not be measured.
func TestDisagreementIsSeen(t *testing.T) {
	k, err := newKeys()
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPolicy("prefix", k)
	if err != nil {
		t.Fatal(err)
	}
	f, err := newTestStarter(t, "noop", "stock").start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer f.stop()
	f.targets[0].name = "careless"
	traffic, err := newTraffic(zipf, p, k)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.agree(t.Context(), traffic); err == nil {
		t.Error("a server that allows everything agrees")
	}
}

// TestCandidates: every experiment decides some requests otherwise.
func TestCandidates(t *testing.T) {
	k, err := newKeys()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range policyNames {
		t.Run(name, func(t *testing.T) {
			p, err := newPolicy(name, k)
			if err != nil {
				t.Fatal(err)
			}
			live := newTestStock(t, p)
			traffic, err := newTraffic(zipf, p, k)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1, 10} {
				candidate, err := p.candidate(n)
				if err != nil {
					t.Fatal(err)
				}
				if !differ(t, live, newTestStock(t, candidate), traffic) {
					t.Errorf("experiment %d of %s changes nothing that is asked for", n, name)
				}
			}
		})
	}
}

func newTestStock(t *testing.T, p policySpec) *stock {
	t.Helper()
	file, err := writePolicy(t.TempDir(), p)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStock(t.Context(), filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func differ(t *testing.T, a, b *stock, traffic *traffic) bool {
	t.Helper()
	stream := traffic.newStream(3)
	for range 4000 {
		r := &authv3.CheckRequest{}
		if err := proto.Unmarshal(stream.next(nil), r); err != nil {
			t.Fatal(err)
		}
		first, err1 := a.Check(t.Context(), r)
		second, err2 := b.Check(t.Context(), r)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if effectOf(first) != effectOf(second) {
			return true
		}
	}
	return false
}

func TestEffectOf(t *testing.T) {
	header := func(name, value string) *corev3.HeaderValueOption {
		return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, Value: value}}
	}
	denial := func(code int32, headers ...*corev3.HeaderValueOption) *authv3.CheckResponse {
		return &authv3.CheckResponse{Status: &rpcstatus.Status{Code: 7}, HttpResponse: &authv3.CheckResponse_DeniedResponse{
			DeniedResponse: &authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: typev3.StatusCode(code)}, Headers: headers},
		}}
	}
	plain := &authv3.CheckResponse{Status: &rpcstatus.Status{Code: 7}}
	if effectOf(plain) != effectOf(denial(403)) {
		t.Error("a plain denial is not one with 403")
	}
	if effectOf(denial(403)) == effectOf(denial(401)) {
		t.Error("401 is 403")
	}
	if effectOf(denial(401, header("a", "1"), header("b", "2"))) != effectOf(denial(401, header("b", "2"), header("a", "1"))) {
		t.Error("the order of headers counts")
	}
	if effectOf(denial(401, header("a", "1"))) == effectOf(denial(401, header("a", "2"))) {
		t.Error("the value of a header does not count")
	}
	for _, r := range []*authv3.CheckResponse{plain, {}, {Status: &rpcstatus.Status{}}, denial(401)} {
		content, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if allowed(content) != effectOf(r).allowed {
			t.Errorf("read from the wire, %v is allowed: %v", r, allowed(content))
		}
	}
}

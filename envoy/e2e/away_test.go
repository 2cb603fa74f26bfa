//go:build realenvoy

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"understudy/admin/storetest"
)

// pair is two sidecars on one Redis, behind the shipped file, with a load.
type pair struct {
	sidecars [2]*sidecar
	envoy    *envoy
	load     *load
}

// newPair waits until both are asked.
func newPair(t *testing.T, arguments ...string) *pair {
	t.Helper()
	p := &pair{}
	arguments = append(arguments, "--store", storetest.Redis(t))
	for i := range p.sidecars {
		p.sidecars[i] = newSidecar(t, arguments...)
	}
	p.sidecars[0].apply(t, "web", "testdata/web.rego")
	p.envoy = newEnvoy(t, shipped(t, "envoy.yaml").local(t, newUpstream(t)).
		move(t, "understudy", 9191, p.sidecars[0].listening.Authz, p.sidecars[1].listening.Authz))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("without an answer were\n%s", strings.Join(p.envoy.out.with(`"status":503`), "\n"))
		}
	})
	p.load = newLoad(t, p.envoy.at["ingress"])
	p.load.answered(t, 100)
	return p
}

// healthy waits until Envoy takes so many sidecars for healthy.
func (p *pair) healthy(t *testing.T, n float64) {
	t.Helper()
	p.load.until(t, "the number of healthy sidecars", func() bool { return healthy(t, p.envoy) == n })
	p.load.answered(t, 100)
}

func healthy(t *testing.T, e *envoy) float64 {
	t.Helper()
	return e.stat(t, "envoy_cluster_membership_healthy", `envoy_cluster_name="understudy"`)
}

// TestOneOfTwoCrashes: requests are answered as if both were there.
func TestOneOfTwoCrashes(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.sidecars[0].kill(t)
	p.healthy(t, 1)
	p.sidecars[0].begin(t)
	p.sidecars[0].ready(t)
	p.healthy(t, 2)
	p.load.outcome().check(t, few)
	if n := p.envoy.stat(t, "envoy_cluster_upstream_rq_retry_success", `envoy_cluster_name="understudy"`); n == 0 {
		t.Error("no request was tried again: the crash was not seen, and this shows nothing")
	}
}

// TestOneOfTwoStalls: a sidecar that takes connections and answers nothing loses
// nothing either.
func TestOneOfTwoStalls(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.sidecars[0].signal(t, syscall.SIGSTOP)
	p.healthy(t, 1)
	p.sidecars[0].signal(t, syscall.SIGCONT)
	p.healthy(t, 2)
	o := p.load.outcome()
	o.check(t, few)
	decided := 0.0
	for _, s := range p.sidecars {
		decided += s.metric(t, "understudy_checks_total", `failure=""`)
	}
	// A sidecar that wakes up finds the calls that Envoy has given up, and decides none or
	// few of them.
	if t.Logf("%v decisions on %d requests", decided, p.load.total); decided < float64(o.right) {
		t.Error("some requests were answered without a decision")
	}
	if n := p.envoy.stat(t, "envoy_cluster_upstream_rq_per_try_timeout", `envoy_cluster_name="understudy"`); n == 0 {
		t.Error("no try timed out: the stall was not seen, and this shows nothing")
	}
}

// TestRollingRestart: both are restarted, one after the other, as a Deployment does it.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	p := newPair(t, "--drain-delay", "5s")
	for _, s := range p.sidecars {
		s.terminate(t)
		p.healthy(t, 1)
		s.begin(t)
		s.ready(t)
		p.healthy(t, 2)
	}
	p.load.outcome().check(t, hardlyAny)
}

// large writes a policy that takes a while to compile: that of a file, and rules that
// are of no use.
func large(t *testing.T, file string) string {
	t.Helper()
	module, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 7000 {
		module = fmt.Appendf(module, "rule_%d if input.attributes.request.http.path == \"/%s/%d\"\n", i, strings.Repeat("x", 140), i)
	}
	out := filepath.Join(t.TempDir(), "large.rego")
	if err := os.WriteFile(out, module, 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestOnlySidecarCrashes: without a sidecar no request passes, and no response is the
// denial of a policy; also not while a new one compiles a policy of 1.3 MiB.
func TestOnlySidecarCrashes(t *testing.T) {
	t.Parallel()
	s := newSidecar(t)
	s.apply(t, "web", large(t, "testdata/web.rego"))
	e := newEnvoy(t, shipped(t, "envoy.yaml").local(t, newUpstream(t)).move(t, "understudy", 9191, s.listening.Authz))
	l := newLoad(t, e.at["ingress"])
	l.answered(t, 100)
	s.kill(t)
	l.until(t, "the sidecar is ejected", func() bool { return healthy(t, e) == 0 })
	l.answered(t, 100)
	s.begin(t)
	l.until(t, "the sidecar is back", func() bool { return healthy(t, e) == 1 })
	l.answered(t, 100)
	o := l.outcome()
	o.check(t, anyNumber)
	if o.unanswered < 100 {
		t.Errorf("%d requests were not answered; while nobody was there at least 100 were asked", o.unanswered)
	}
}

// TestEnvoyStartsFirst: until there is a sidecar the answer is 503, and until there is
// a policy it is the default decision.
func TestEnvoyStartsFirst(t *testing.T) {
	t.Parallel()
	s := prepareSidecar(t)
	e := newEnvoy(t, shipped(t, "envoy.yaml").local(t, newUpstream(t)).move(t, "understudy", 9191, s.listening.Authz))
	address := e.at["ingress"]
	if a := ask(t, address, "GET", "/public/x", nil); a.status != 503 {
		t.Errorf("without a sidecar: got %d", a.status)
	}
	if a := ask(t, address, "GET", "/healthz", nil); a.status != 200 {
		t.Errorf("a probe without a sidecar: got %d", a.status)
	}
	s.begin(t)
	s.ready(t)
	l := newLoad(t, address)
	l.until(t, "the sidecar is healthy", func() bool { return healthy(t, e) == 1 })
	l.stop()
	if a := ask(t, address, "GET", "/public/x", nil); a.status != 403 {
		t.Errorf("without a policy: got %d; a sidecar whose location is empty is ready, and denies", a.status)
	}
	s.apply(t, "web", "testdata/web.rego")
	if a := ask(t, address, "GET", "/public/x", nil); a.status != 200 {
		t.Errorf("with a policy: got %d", a.status)
	}
}

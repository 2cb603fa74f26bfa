//go:build realenvoy

package e2e_test

import (
	"net"
	"testing"

	"understudy/cmd/testkit"
)

// TestCallerDisconnects: who leaves in the middle of a check is no policy that was too slow.
func TestCallerDisconnects(t *testing.T) {
	t.Parallel()
	// Envoy waits so long that a caller leaves before, and the sidecar longer: an evaluation ends
	// because Envoy has gone.
	s := newSidecar(t, "--decision-timeout", "1h")
	s.apply(t, "web", "testdata/web.rego")
	e := newEnvoy(t, shipped(t, "envoy.yaml").local(t, newUpstream(t)).unhurried(100).move(t, "understudy", 9191, s.listening.Authz))
	const callers = 5
	for left := range callers {
		// Who leaves just when Envoy begins to ask is not seen here: then another one comes.
		testkit.Await(t, "the check that was left is counted", func() bool {
			leaveMidCheck(t, e)
			return s.metric(t, "understudy_checks_total", `result="CANCELLED"`) > float64(left)
		})
	}
	if n := s.metric(t, "understudy_checks_total", `failure="DEADLINE_EXCEEDED"`); n != 0 {
		t.Errorf("%v checks count as policies that were too slow", n)
	}
}

// leaveMidCheck asks, closes the connection while the check is under way, and waits
// until Envoy has given it up.
func leaveMidCheck(t *testing.T, e *envoy) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", e.at["ingress"], testkit.Patience)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("GET /slow HTTP/1.1\r\nhost: shop.example\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	asking := func() float64 {
		return e.stat(t, "envoy_cluster_upstream_rq_active", `envoy_cluster_name="understudy"`)
	}
	testkit.Await(t, "the check is under way", func() bool { return asking() > 0 })
	_ = conn.Close()
	testkit.Await(t, "Envoy asks nothing any more", func() bool { return asking() == 0 })
}

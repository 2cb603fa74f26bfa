//go:build realenvoy

package e2e_test

import "testing"

// TestFailureIsAnErrorWithMetadata has failures be error_responses: Envoy takes them for
// errors, and the access log still says what failed. A denied client has the decision ID.
func TestFailureIsAnErrorWithMetadata(t *testing.T) {
	t.Parallel()
	s := newSidecar(t, "--fail-with-error=response", "--decision-id-header", "x-decision-id")
	s.apply(t, "web", "testdata/failing.rego")
	e := newEnvoy(t, shipped(t, "envoy.yaml").local(t, newUpstream(t)).move(t, "understudy", 9191, s.listening.Authz))
	for path, want := range map[string]struct {
		status  int
		details string
		failure any
		header  bool
	}{
		"/public/x":   {200, "via_upstream", nil, false},
		"/private/x":  {403, "ext_authz_denied", nil, true},
		"/elsewhere":  {503, "ext_authz_error", "UNDEFINED", false},
		"/framed/x":   {503, "ext_authz_error", "WRONG_TYPE", false},
		"/answered/x": {503, "ext_authz_error", "WRONG_TYPE", false},
	} {
		from := e.out.count()
		a := ask(t, e.at["ingress"], "GET", path, nil)
		line := e.line(t, from, `"path":"`+path+`"`)
		if a.status != want.status || line["details"] != want.details || line["failure"] != want.failure {
			t.Errorf("%s: got %d, the log has %v; want %v", path, a.status, line, want)
		}
		id, _ := line["decision_id"].(string)
		if got := a.header.Get("X-Decision-Id"); len(id) != 36 || want.header && got != id {
			t.Errorf("%s: the client gets %q, the log has the decision %q", path, got, id)
		}
		if want.failure != nil && line["reason"] == nil {
			t.Errorf("%s: the failure has no reason: %v", path, line)
		}
	}
}

// TestNoMessageIsFramedByAPolicy: an upstream would wait for a body that never comes.
func TestNoMessageIsFramedByAPolicy(t *testing.T) {
	t.Parallel()
	s := newSidecar(t)
	s.apply(t, "web", "testdata/failing.rego")
	e := newEnvoy(t, shipped(t, "envoy.yaml").local(t, newUpstream(t)).move(t, "understudy", 9191, s.listening.Authz))
	for _, path := range []string{"/framed/x", "/answered/x"} {
		if a := ask(t, e.at["ingress"], "GET", path, nil); a.status != 403 || a.upstream(t) != nil {
			t.Errorf("%s: got %d %v", path, a.status, a.header)
		}
	}
}

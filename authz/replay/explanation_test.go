package replay_test

import (
	"errors"
	"testing"

	"understudy/authz"
	"understudy/authz/replay"
)

// TestExplain finds a decision in a log, and explains it.
func TestExplain(t *testing.T) {
	policy := policyOf("allow if {\n\tinput.attributes.request.http.method == \"GET\"\n\tinput.attributes.request.http.headers.team == \"shop\"\n}")
	logged := files(
		"no event",
		entryOf(t, 0, envoy("GET", "/a", map[string]any{"team": "shop"}), true, nil),
		entryOf(t, 1, envoy("GET", "/b", map[string]any{"team": "other"}), false, nil),
		entryOf(t, 2, envoy("GET", "/c", map[string]any{"team": "other"}), true, nil),
		entryOf(t, 3, envoy("GET", "/d", nil), false, map[string]any{"erased": []string{"/input/attributes/request/http/headers/team"}}),
	)
	explained := func(id string) *replay.Explanation {
		t.Helper()
		found, err := replay.Find(t.Context(), logged, id)
		if err != nil {
			t.Fatal(err)
		}
		if name, revision := found.Policy(); name != "web" || revision != "r1" {
			t.Errorf("%s is of %q at %q", id, name, revision)
		}
		out, err := found.Explain(t.Context(), policy)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if x := explained("d0"); x.Decision.Effect != authz.Allow || len(x.Causes) != 2 || x.Drift != authz.Unchanged {
		t.Errorf("allowed: %+v", x)
	}
	if x := explained("d1"); x.Decision.Effect != authz.Deny || len(x.Causes) != 1 || x.Causes[0].Line != 5 {
		t.Errorf("denied: %+v", x)
	}
	if x := explained("d2"); x.Drift != authz.NewlyDenied {
		t.Errorf("decided otherwise then: %+v", x)
	}
	if x := explained("d3"); x.NotDecided == "" || len(x.Causes) != 0 || len(x.Missing) != 1 || x.Missing[0].Position != "auth.rego:5" {
		t.Errorf("erased: %+v", x)
	}
	if _, err := replay.Find(t.Context(), logged, "d4"); !errors.Is(err, replay.ErrNoDecision) {
		t.Errorf("an ID that is not in the log: %v", err)
	}
}

// TestExplainARequest explains a CheckRequest that is in no log.
func TestExplainARequest(t *testing.T) {
	request := []byte(`{"attributes": {"request": {"http": {"method": "POST", "path": "/a"}}}}`)
	x, err := replay.Request(request, start).Explain(t.Context(), policyOf("allow if input.attributes.request.http.method == \"GET\""))
	if err != nil || x.Decision.Effect != authz.Deny || len(x.Causes) != 1 || x.Causes[0].Line != 3 {
		t.Errorf("%+v, %v", x, err)
	}
	var refused *replay.PolicyError
	if _, err := replay.Request(request, start).Explain(t.Context(), policyOf("nonsense")); !errors.As(err, &refused) {
		t.Errorf("a policy that does not compile: %v", err)
	}
}

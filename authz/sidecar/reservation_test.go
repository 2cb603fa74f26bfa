package sidecar_test

import (
	"strings"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/testkit"
)

// TestAReservationIsAllowedWithoutAPolicy next to a check of Envoy's, which is not.
func TestAReservationIsAllowedWithoutAPolicy(t *testing.T) {
	for name, feed := range map[string]*memoryFeed{"none": newFeed(), "no rules": func() *memoryFeed {
		f := newFeed()
		f.put(webName, authz.PolicyState{Policy: policy("a", "")})
		return f
	}()} {
		s, _ := start(t, feed, nil)
		testkit.Closed(t, "s is ready", s.Ready())
		if d := s.Check(t.Context(), request("GET", nil)); d.Effect != authz.Deny || !d.Default {
			t.Errorf("%s: Envoy gets %+v", name, d)
		}
		if d := s.Check(t.Context(), lease(creation, time.Hour)); d.Effect != authz.Allow || !d.Default {
			t.Errorf("%s: Blazar gets %+v", name, d)
		}
	}
}

// TestReservationsAreComparedByWhatBlazarIsTold: the effect and the reason, and nothing
// of what is for Envoy.
func TestReservationsAreComparedByWhatBlazarIsTold(t *testing.T) {
	const live = `package envoy.authz
		allow := {"allowed": false, "reason": "no", "body": "a", "http_status": 404}`
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("live", live), Experiments: []*adminpb.PolicyExperiment{
		experiment("body", "b", strings.Replace(live, `"a"`, `"b"`, 1)), experiment("reason", "r", strings.Replace(live, `"no"`, `"never"`, 1)),
	}})
	s, rec := start(t, feed, nil)
	testkit.Closed(t, "s is ready", s.Ready())
	for i, c := range []struct {
		request *authz.Request
		want    map[string]string
	}{
		{request("GET", nil), map[string]string{"b": "RESPONSE_CHANGED", "r": "UNCHANGED"}},
		{lease(creation, time.Hour), map[string]string{"b": "UNCHANGED", "r": "RESPONSE_CHANGED"}},
	} {
		s.Check(t.Context(), c.request)
		for _, r := range rec.await(t, 2)[2*i:] {
			etag := r.attributes["understudy.experiment.etag"]
			if got := r.attributes["understudy.preview.difference"]; got != c.want[etag] {
				t.Errorf("%s: the experiment %s is %s, want %s", c.request.Method, etag, got, c.want[etag])
			}
		}
	}
}

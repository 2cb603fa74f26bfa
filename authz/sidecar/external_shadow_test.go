package sidecar_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/sidecar"
)

// candidateOf returns rules as an experiment with an etag.
func candidateOf(etag string, chain ...*adminpb.PolicyRule) *adminpb.Policy {
	p := rules(someRules, chain...)
	p.Etag = etag
	return p
}

// outcomes :: etag of the experiment → difference and reason of its record.
func outcomes(records []record) map[string][2]string {
	out := make(map[string][2]string)
	for _, r := range records {
		a := r.attributes
		out[a["understudy.experiment.etag"]] = [2]string{a["understudy.preview.difference"], a["understudy.preview.reason"]}
	}
	return out
}

const notCalled = "The external service is not called for an experiment: " +
	"the live policy did not ask it the same, and this server allows no calls for experiments."

// TestTheLiveAnswerIsReused previews chains around one service: it is asked once, by
// the live chain, and its answer means to each experiment what that makes of it.
func TestTheLiveAnswerIsReused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   map[string][2]string
	}{
		{"it denies", 403, `{"message": "no"}`, map[string][2]string{
			"same": {"UNCHANGED", "no"}, "lenient": {"UNCHANGED", "no"}, "without": {"NEWLY_ALLOWED", "no"},
			"stricter": {"RESPONSE_CHANGED", "one"}, "elsewhere": {"FAILED", notCalled},
		}},
		{"it passes", 204, "", map[string][2]string{
			"same": {"UNCHANGED", ""}, "lenient": {"UNCHANGED", ""}, "without": {"UNCHANGED", ""},
			"stricter": {"NEWLY_DENIED", "one"}, "elsewhere": {"FAILED", notCalled},
		}},
		{"it fails", 500, "", map[string][2]string{
			"same": {"UNCHANGED", "The external service gave no decision."}, "lenient": {"NEWLY_ALLOWED", "The external service gave no decision."},
			"without": {"NEWLY_ALLOWED", "The external service gave no decision."}, "stricter": {"UNCHANGED", "one"}, "elsewhere": {"FAILED", notCalled},
		}},
	} {
		for name, r := range map[string]*authz.Request{"create": lease(creation, time.Hour), "Envoy's": envoys("GET")} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				service, other := newService(t, says(c.status, c.body)), newService(t, nil)
				m := newMeter()
				s, rec := deciding(t, rules("", serviceRule(service.URL, false)), func(c *sidecar.Config) { c.Meters = m },
					candidateOf("same", lengthRule(0), serviceRule(service.URL+"/", false)),
					candidateOf("lenient", serviceRule(service.URL, true)),
					candidateOf("without", regoRule("m/yes")),
					candidateOf("stricter", regoRule("m/one"), serviceRule(service.URL, false)),
					candidateOf("elsewhere", serviceRule(other.URL, true)),
				)
				s.Check(t.Context(), r)
				got := outcomes(rec.await(t, 5))
				for etag, want := range c.want {
					// Blazar's user reads the reason; Envoy's client sees no more than a denial.
					if r.Reservation != nil && c.status == 500 && etag == "stricter" {
						want[0] = "RESPONSE_CHANGED"
					}
					if got[etag] != want {
						t.Errorf("%s: the record says %q, want %q", etag, got[etag], want)
					}
				}
				if n, m := len(service.calls()), len(other.calls()); n != 1 || m != 0 {
					t.Errorf("the services were called %d and %d times; want once, by the live chain", n, m)
				}
				if got := m.count(t, "understudy.external.reused"); got != 2 {
					t.Errorf("the answer is reused %d times, want 2", got)
				}
			})
		}
	}
}

// TestWhatTheLiveChainDidNotReachIsNotCalled: the same service stands behind a denial.
func TestWhatTheLiveChainDidNotReachIsNotCalled(t *testing.T) {
	t.Parallel()
	service := newService(t, nil)
	s, rec := deciding(t, rules(someRules, regoRule("m/one"), serviceRule(service.URL, false)), nil,
		candidateOf("e", serviceRule(service.URL, true)))
	s.Check(t.Context(), lease(creation, time.Hour))
	if got := outcomes(rec.await(t, 1))["e"]; got != [2]string{"FAILED", notCalled} {
		t.Errorf("the record says %q", got)
	}
	if n := len(service.calls()); n != 0 {
		t.Errorf("the service was called %d times", n)
	}
}

// TestShadowCalls are those that the server's configuration allows: once for all
// experiments that ask the same.
func TestShadowCalls(t *testing.T) {
	t.Parallel()
	service, other := newService(t, nil), newService(t, says(403, `{"message": "no"}`))
	s, rec := deciding(t, rules("", serviceRule(service.URL, false)),
		func(c *sidecar.Config) { c.External.ShadowCalls = true },
		candidateOf("a", serviceRule(other.URL, false)), candidateOf("b", lengthRule(0), serviceRule(other.URL, true)),
	)
	s.Check(t.Context(), lease(creation, time.Hour))
	got := outcomes(rec.await(t, 2))
	for _, etag := range []string{"a", "b"} {
		if want := [2]string{"NEWLY_DENIED", "no"}; got[etag] != want {
			t.Errorf("%s: the record says %q, want %q", etag, got[etag], want)
		}
	}
	if n, m := len(service.calls()), len(other.calls()); n != 1 || m != 1 {
		t.Errorf("the services were called %d and %d times; want once each", n, m)
	}
}

// TestAnEndIsNeverToldInShadow: a service could refund twice what was paid once.
func TestAnEndIsNeverToldInShadow(t *testing.T) {
	t.Parallel()
	service, other := newService(t, nil), newService(t, nil)
	s, rec := deciding(t, rules("", serviceRule(service.URL, false)),
		func(c *sidecar.Config) { c.External.ShadowCalls = true },
		candidateOf("same", serviceRule(service.URL, false)), candidateOf("other", serviceRule(other.URL, false), regoRule("m/one")),
	)
	s.Check(t.Context(), lease(ending, time.Hour))
	for etag, got := range outcomes(rec.await(t, 2)) {
		if got != [2]string{"UNCHANGED", ""} {
			t.Errorf("%s: the record says %q", etag, got)
		}
	}
	if n, m := len(service.calls()), len(other.calls()); n != 1 || m != 0 {
		t.Errorf("the services were called %d and %d times; want the live one alone, once", n, m)
	}
}

// TestNothingOfAReservationIsCached asks about two reservations that policies could
// take for one.
func TestNothingOfAReservationIsCached(t *testing.T) {
	t.Parallel()
	s, _ := deciding(t, rules("", lengthRule(time.Hour)), nil)
	for length, want := range map[time.Duration]authz.Effect{time.Hour: authz.Allow, 2 * time.Hour: authz.Deny} {
		r := lease(creation, length)
		r.Parts = asked(nil).parts
		for range 2 {
			if got := s.Check(t.Context(), r).Effect; got != want {
				t.Errorf("%v: got %v, want %v", length, got, want)
			}
		}
	}
}

// TestAnswersOfServicesAreNotCached asks twice.
func TestAnswersOfServicesAreNotCached(t *testing.T) {
	t.Parallel()
	service := newService(t, nil)
	s, _ := deciding(t, rules("", serviceRule(service.URL, false)), nil)
	for range 2 {
		r := envoys("GET")
		r.Parts = asked(nil).parts
		s.Check(t.Context(), r)
	}
	if n := len(service.calls()); n != 2 {
		t.Errorf("the service was called %d times for two requests", n)
	}
}

// TestARequestThatIsExemptSharesNoDecision: exemption is no part of what rules read.
func TestARequestThatIsExemptSharesNoDecision(t *testing.T) {
	t.Parallel()
	live := rules("no := false", regoRule("m/no"))
	live.ExemptedProjects = []string{"p"}
	s, _ := deciding(t, proto.CloneOf(live), nil)
	for range 2 {
		for project, want := range map[string]authz.Effect{"p": authz.Allow, "q": authz.Deny} {
			r := envoys("GET")
			r.Parts, r.Project = asked(nil).parts, authz.Project{ID: project}
			if got := s.Check(t.Context(), r).Effect; got != want {
				t.Errorf("%s: got %v, want %v", project, got, want)
			}
		}
	}
}

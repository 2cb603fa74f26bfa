package ui_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
)

// TestRevisions: the page of a revision says how it became live, what its commit had shown, and
// what differs from any other one.
func TestRevisions(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	s.beat("n1", time.Hour, policy)
	first := s.policyAt(policy)
	s.publish("n1", someEvidence(), somePoints()...)
	e := s.experimentAt(trial)
	s.beat("n1", -time.Hour, policy)
	if _, err := s.server.CommitPolicyExperiment(t.Context(), &adminpb.CommitPolicyExperimentRequest{Name: e.Name, Etag: e.Etag}); err != nil {
		t.Fatal(err)
	}
	second := s.policyAt(policy)

	page := textOf(t, s.page(policy))
	for _, want := range []string{"How it became live", "commit of tighter", "apply"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of the policy does not say %q:\n%s", want, page)
		}
	}
	for _, path := range []string{"/ui/" + second.Revision, "/ui/" + first.Revision, "/ui/" + first.Revision + "?with=" + second.Revision[len(policy+"/revisions/"):], "/ui/" + second.Revision + "?with=nonsense&q=health"} {
		checkPage(t, path, s.get(path))
	}
	page = textOf(t, s.page(second.Revision))
	for _, want := range []string{
		"commit of tighter,", "live", "Look first", "70 of 1,000 requests that the live policy allows would be newly denied (7%)", "GET /health/*", "input.operator", "2 of 3 items were not seen",
		"What differs", "more if false", "Revision " + second.Revision[len(policy+"/revisions/"):][:12],
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of the committed revision does not say %q:\n%s", want, page)
		}
	}
	if strings.Contains(s.page(second.Revision), "/rollback") {
		t.Error("what is live can be rolled back to")
	}
	earlier := s.page(first.Revision)
	if !strings.Contains(earlier, "/rollback") || strings.Contains(earlier, "h-numbers") || !strings.Contains(textOf(t, earlier), "Live policy") {
		t.Errorf("the earlier revision cannot be rolled back to, has the report of another one, or is not compared with what is live:\n%s", textOf(t, earlier))
	}
	if chosen := regexp.MustCompile(`<option value="([^"]*)" selected>`).FindStringSubmatch(s.page(second.Revision)); chosen == nil || !strings.HasSuffix(first.Revision, chosen[1]) {
		t.Errorf("the live revision is compared with %v, want the one before", chosen)
	}
	if a := s.get("/ui/" + policy + "/revisions/none"); a.code != http.StatusNotFound {
		t.Errorf("a revision that is not there: got %d", a.code)
	}
}

// TestARevisionAlone has nothing to be compared with.
func TestARevisionAlone(t *testing.T) {
	s := newSite(t)
	p := s.policyIn(location, "shop", "package envoy.authz\n\nallow := true\n")
	a := s.get("/ui/" + p.Revision)
	checkPage(t, "alone", a)
	if !strings.Contains(a.body, "There is nothing else to compare it with.") {
		t.Errorf("it is compared with something:\n%s", textOf(t, a.body))
	}
}

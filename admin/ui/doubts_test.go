package ui_test

import (
	"net/http"
	"strings"
	"testing"

	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
)

// TestACommitListsWhatTheReportDoesNotShow: the page lists it, and its form accepts all of it with one
// reason, for what was shown and no more.
func TestACommitListsWhatTheReportDoesNotShow(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	s.publish("n1", someEvidence())
	page := s.get("/ui/" + trial + "/commit")
	checkPage(t, "commit", page)
	text := textOf(t, page.body)
	for _, want := range []string{
		"What you accept by it", "newly-denied=0,newly-allowed=0,response-changed=0,failed=0,dropped<=1%,unjudged=0", "70 requests newly denied GET /health/* : accepted are at most 140 requests",
		"Not seen: ", "Why is that as it should be?",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
	const commit = "/ui/" + trial + "/commit"
	form := fields(t, page.body, commit)
	if a := s.post(commit, form); a.code != http.StatusBadRequest || !strings.Contains(a.body, "reason") {
		t.Errorf("without a reason: got %d\n%s", a.code, textOf(t, a.body))
	}
	form.Set("reason", "yes")
	if a := s.post(commit, form); a.code != http.StatusBadRequest || !strings.Contains(a.body, "A reason says more than") {
		t.Errorf("a yes: got %d\n%s", a.code, textOf(t, a.body))
	}
	form.Set("reason", "the routes are closed in May")
	accepts := form["accept"]
	form["accept"] = append([]string{"group:x"}, accepts...)
	if a := s.post(commit, form); a.code != http.StatusBadRequest {
		t.Errorf("with an acceptance that cannot be read: got %d, want 400", a.code)
	}
	form["accept"] = nil
	if a := s.post(commit, form); a.code == http.StatusSeeOther {
		t.Error("what is required is not met, and yet it was committed")
	}
	form["accept"] = accepts
	if a := s.post(commit, form); a.code != http.StatusSeeOther {
		t.Fatalf("got %d\n%s", a.code, textOf(t, a.body))
	}
	revision, err := s.server.GetPolicyRevision(t.Context(), &adminpb.GetPolicyRevisionRequest{Name: policy + "/revisions/latest"})
	if err != nil {
		t.Fatal(err)
	}
	kept := revision.GetReport().GetAcceptances()
	if len(kept) != len(accepts) || kept[0].GetReason() != "the routes are closed in May" {
		t.Errorf("of %d acceptances the revision keeps %v", len(accepts), kept)
	}
}

// TestACommitOfWhatIsShown is offered as any other commit: there is nothing that it does all the same.
func TestACommitOfWhatIsShown(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	s.publish("n1", &evidencepb.Pair{Counts: &evidencepb.Counts{BothAllow: 20}})
	report, err := s.server.GetReport(t.Context(), &adminpb.GetReportRequest{Name: trial + "/report"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.server.CreateAcceptance(t.Context(), &adminpb.CreateAcceptanceRequest{Parent: trial, Acceptance: &adminpb.Acceptance{
		Target: &adminpb.Acceptance_ItemId{ItemId: report.ChangeId}, Reason: "as planned", ExperimentEtag: report.ExperimentEtag, PolicyEtag: report.PolicyEtag,
	}})
	if err != nil {
		t.Fatal(err)
	}
	if page := s.page(trial, "/commit"); strings.Contains(page, "all the same") || strings.Contains(page, "What you accept by it") || !strings.Contains(page, `class="main" id="b-commit">Commit<`) {
		t.Errorf("the page doubts what is shown:\n%s", textOf(t, page))
	}
}

// TestACommitNoticesWhatHasChanged: a group that has more requests by then than were shown as accepted is
// not committed.
func TestACommitNoticesWhatHasChanged(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	s.publish("n1", someEvidence())
	page := s.page(trial, "/commit")
	more := someEvidence()
	more.Groups[0].Count *= 3
	more.Counts.NewlyDenied *= 3
	s.publish("n1", more)
	if a := s.submit(page, "/ui/"+trial+"/commit"); a.code != http.StatusBadRequest || !strings.Contains(a.body, "requests already") {
		t.Errorf("got %d\n%s", a.code, textOf(t, a.body))
	}
	if s.experimentAt(trial) == nil {
		t.Error("it was committed")
	}
}

// TestAcceptAnItem accepts what no request has shown, from the list of items, and takes it back.
func TestAcceptAnItem(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	s.publish("n1", someEvidence())
	page := s.page(trial)
	at := strings.Index(page, "/accept?item=")
	if at < 0 {
		t.Fatalf("no item can be accepted:\n%s", textOf(t, page))
	}
	query, _, _ := strings.Cut(page[at:], `"`)
	ask := s.get("/ui/" + trial + query)
	checkPage(t, "accept", ask)
	if text := textOf(t, ask.body); !strings.Contains(text, "No request has shown what the item does") {
		t.Errorf("the page that asks says\n%s", text)
	}
	a := s.submit(ask.body, "/ui/"+trial+"/accept")
	if a.code != http.StatusSeeOther || a.header.Get("Location") != "/ui/"+trial+"#h-items" {
		t.Fatalf("got %d to %s\n%s", a.code, a.header.Get("Location"), textOf(t, a.body))
	}
	accepted := s.get("/ui/" + trial)
	checkPage(t, "experiment", accepted)
	if !strings.Contains(textOf(t, accepted.body), "Accepted by somebody: as planned.") {
		t.Errorf("the page does not say who has accepted it:\n%s", textOf(t, accepted.body))
	}
	if a := s.submit(accepted.body, "/ui/"+trial+"/takeBack"); a.code != http.StatusSeeOther {
		t.Errorf("taking it back: got %d", a.code)
	}
	if strings.Contains(s.page(trial), "as planned") {
		t.Error("it is still accepted")
	}
}

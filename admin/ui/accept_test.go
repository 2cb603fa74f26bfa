package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"understudy/admin/access"
	adminpb "understudy/admin/v1"
)

// acceptAddress is where the page that asks for an acceptance of a group is; empty if nobody is
// offered one.
func acceptAddress(page string) string {
	_, rest, found := strings.Cut(page, `href="/ui/`+trial+`/accept?group=`)
	group, _, _ := strings.Cut(rest, `"`)
	if !found {
		return ""
	}
	return "/ui/" + trial + "/accept?group=" + group
}

// TestAccept accepts what a commit would be refused for, shows who did and why, and takes it back.
func TestAccept(t *testing.T) {
	s := newSiteFor(t, "owner", "viewer").as("owner")
	s.rehearsed()
	s.bind(map[string]access.Role{"viewer": access.RoleViewer})
	s.publish("n1", someEvidence())
	limit := int64(0)
	required := &adminpb.CommitRequirements{MaxNewlyDeniedCount: &limit}
	if _, err := s.server.UpdateConfig(t.Context(), &adminpb.UpdateConfigRequest{
		Config: &adminpb.Config{Name: location + "/config", CommitRequirements: required},
	}); err != nil {
		t.Fatal(err)
	}
	ask := s.get(acceptAddress(s.page(trial)))
	checkPage(t, "accept", ask)
	if text := textOf(t, ask.body); ask.code != http.StatusOK || !strings.Contains(text, "GET /health/*") || !strings.Contains(text, "counts against no requirement") {
		t.Fatalf("the page that asks: got %d\n%s", ask.code, text)
	}
	form := fields(t, ask.body, "/ui/"+trial+"/accept")
	if a := s.post("/ui/"+trial+"/accept", form); a.code != http.StatusBadRequest || !strings.Contains(a.body, "reason") {
		t.Errorf("without a reason: got %d, want 400\n%s", a.code, textOf(t, a.body))
	}
	form.Set("reason", "the monitoring is <b>ours</b>")
	form.Set("max_requests", "0")
	if a := s.post("/ui/"+trial+"/accept", form); a.code != http.StatusBadRequest || !strings.Contains(a.body, "at least 1") {
		t.Errorf("for no request: got %d, want 400\n%s", a.code, textOf(t, a.body))
	}
	form.Set("max_requests", "")
	if a := s.post("/ui/"+trial+"/accept", form); a.code != http.StatusSeeOther || a.header.Get("Location") != "/ui/"+trial+"#groups" {
		t.Fatalf("accept: got %d to %s\n%s", a.code, a.header.Get("Location"), textOf(t, a.body))
	}
	page := s.get("/ui/" + trial)
	checkPage(t, "experiment", page)
	const want = "Accepted by token:owner: the monitoring is <b>ours</b> (70 of at most 140 requests, 0 of at most 0 callers)."
	if !strings.Contains(textOf(t, page.body), want) {
		t.Errorf("the page does not say %q:\n%s", want, textOf(t, page.body))
	}
	if strings.Contains(s.page(trial, "/commit"), "the server would refuse it") {
		t.Error("what was accepted still blocks the commit")
	}
	viewer := s.as("viewer").page(trial)
	if acceptAddress(viewer) != "" || strings.Contains(viewer, trial+"/takeBack") || !strings.Contains(textOf(t, viewer), want) {
		t.Error("a viewer is offered to accept, or does not see what was accepted")
	}

	back := s.submit(page.body, "/ui/"+trial+"/takeBack")
	if back.code != http.StatusSeeOther || strings.Contains(s.page(trial), "Accepted by") {
		t.Errorf("it was not taken back: got %d", back.code)
	}
	if again := s.submit(page.body, "/ui/"+trial+"/takeBack"); again.code != http.StatusNotFound {
		t.Errorf("the form once more: got %d, want 404", again.code)
	}
}

// TestWhoMayNotCommitAcceptsNothing, and sees no page that asks; nor does a form that is about
// another version, or a group of nothing.
func TestWhoMayNotCommitAcceptsNothing(t *testing.T) {
	s := newSiteFor(t, "owner", "viewer").as("owner")
	s.rehearsed()
	s.bind(map[string]access.Role{"viewer": access.RoleViewer})
	s.publish("n1", someEvidence())
	at := acceptAddress(s.page(trial))
	form := fields(t, s.get(at).body, "/ui/"+trial+"/accept")
	form.Set("reason", "fine")
	if a := s.as("viewer").get(at); a.code != http.StatusForbidden {
		t.Errorf("a viewer asks: got %d, want 403", a.code)
	}
	for _, path := range []string{"/accept", "/takeBack"} {
		for name, f := range map[string]url.Values{"valid": form, "empty": {}} {
			if a := s.as("viewer").post("/ui/"+trial+path, f); a.code != http.StatusForbidden {
				t.Errorf("a viewer posts %s, %s: got %d, want 403", path, name, a.code)
			}
		}
	}
	form.Set("etag", "x")
	if a := s.post("/ui/"+trial+"/accept", form); a.code != http.StatusConflict {
		t.Errorf("another version: got %d, want 409", a.code)
	}
	if a := s.get("/ui/" + trial + "/accept?group=none"); a.code != http.StatusBadRequest {
		t.Errorf("no such group: got %d, want 400", a.code)
	}
}

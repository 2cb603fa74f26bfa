package ui_test

import (
	"bufio"
	"net/http"
	"regexp"
	"strings"
	"testing"

	adminpb "understudy/admin/v1"
)

// stream is a page that is live.
type stream struct {
	testing.TB
	lines *bufio.Scanner
	close func()
}

// ask asks for what becomes of a page. The answer lasts until it is closed.
func (s *site) ask(path string) *http.Response {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.http.URL+path, http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	if s.cookie != "" {
		r.Header.Set("Cookie", s.cookie)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	return response
}

// listen is a page that is live.
func (s *site) listen(path string) *stream {
	s.Helper()
	response := s.ask(path) //nolint:bodyclose // the stream closes it
	if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || got != "text/event-stream" {
		s.Fatalf("got %d, %s", response.StatusCode, got)
	}
	return &stream{s.TB, bufio.NewScanner(response.Body), func() { _ = response.Body.Close() }}
}

// next is the data of the next event of a kind; empty if the stream has ended.
func (s *stream) next(event string) string {
	s.Helper()
	for kind := ""; s.lines.Scan(); {
		if name, found := strings.CutPrefix(s.lines.Text(), "event: "); found {
			kind = name
		}
		if data, found := strings.CutPrefix(s.lines.Text(), "data: "); found && kind == event {
			return data
		}
	}
	return ""
}

// pageVersion finds the version of a page.
var pageVersion = regexp.MustCompile(`<body data-version="([0-9a-f]+)"`)

func versionIn(t *testing.T, page string) string {
	t.Helper()
	found := pageVersion.FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page has no version:\n%s", page)
	}
	return found[1]
}

// TestALivePage: the stream has the version of the page, another one when something has changed,
// and says when there is no page any more.
func TestALivePage(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	page := s.page(trial)
	live := s.listen("/ui/" + trial)
	defer live.close()
	if got, want := live.next("version"), versionIn(t, page); got != want {
		t.Errorf("the stream begins with %s, want %s", got, want)
	}
	s.publish("n1", someEvidence())
	if got, want := live.next("version"), versionIn(t, s.page(trial)); got != want {
		t.Errorf("then it has %s, want %s", got, want)
	}
	if _, err := s.server.DeletePolicyExperiment(t.Context(), &adminpb.DeletePolicyExperimentRequest{Name: trial}); err != nil {
		t.Fatal(err)
	}
	if got := live.next("gone"); got != "gone" {
		t.Errorf("at the end it has %q, want gone", got)
	}
	if got := live.next("version"); got != "" {
		t.Errorf("after its end it has %q", got)
	}
}

// TestPartsThatABrowserHas are not sent again.
func TestPartsThatABrowserHas(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	ask := func(have string) answer {
		r, err := http.NewRequest(http.MethodGet, s.http.URL+"/ui/"+trial, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Understudy-Have", have)
		return s.send(r)
	}
	whole := ask("")
	parts := regexp.MustCompile(`data-part id="[^"]*" data-version="([0-9a-f]+)"`).FindAllStringSubmatch(whole.body, -1)
	if len(parts) < 5 {
		t.Fatalf("the page has %d parts", len(parts))
	}
	var have []string
	for _, p := range parts {
		have = append(have, p[1])
	}
	rest := ask(strings.Join(have, ","))
	if got := strings.Count(rest.body, "data-same></div>"); got != len(parts) || versionIn(t, rest.body) != versionIn(t, whole.body) {
		t.Errorf("%d of %d parts are left out:\n%s", got, len(parts), rest.body)
	}
	s.publish("n1", someEvidence())
	if rest := ask(strings.Join(have, ",")).body; !strings.Contains(rest, "data-same></div>") || !strings.Contains(rest, "Look first") {
		t.Errorf("what has changed is not there, or all of it is:\n%s", rest)
	}
}

// TestALogoutEndsWhatIsLive of that session, and of no other.
func TestALogoutEndsWhatIsLive(t *testing.T) {
	s := newSiteFor(t, "olga")
	const cookie = "understudy-session="
	olga, again, header := s.withCookie(cookie+"olga-token").listen("/ui/"+location), s.withCookie(cookie+"olga-token").listen("/ui/"+location), s.as("olga").listen("/ui/"+location)
	for _, live := range []*stream{olga, again, header} {
		defer live.close()
		if live.next("version") == "" {
			t.Fatal("the stream has no version")
		}
	}
	logout, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.http.URL+"/ui/logout", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	logout.Header.Set("Cookie", cookie+"olga-token")
	response, err := http.DefaultTransport.RoundTrip(logout)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusSeeOther {
		t.Fatalf("the logout answers %d", response.StatusCode)
	}
	for _, live := range []*stream{olga, again} {
		if got := live.next("gone"); got != "gone" {
			t.Errorf("after the logout the stream has %q, want gone", got)
		}
	}
	// Credentials in a header are no session.
	if _, err := s.server.CreatePolicy(t.Context(), &adminpb.CreatePolicyRequest{Parent: location, PolicyId: "shop", Policy: newPolicy("package envoy.authz\n\nallow := true\n")}); err != nil {
		t.Fatal(err)
	}
	if header.next("version") == "" {
		t.Error("the logout has ended what is no session")
	}
}

// TestDrainEndsWhatIsLive, so that a shutdown need not wait for it.
func TestDrainEndsWhatIsLive(t *testing.T) {
	s := newSite(t)
	live := s.listen("/ui/" + location)
	defer live.close()
	if live.next("version") == "" {
		t.Fatal("the stream has no version")
	}
	s.ui.Drain()
	if got := live.next("version"); got != "" {
		t.Errorf("the stream goes on with %q", got)
	}
}

// TestNobodyTakesAllPlaces: one caller has some of the places for live pages, and what is given
// back can be taken again.
func TestNobodyTakesAllPlaces(t *testing.T) {
	s := newSiteFor(t, "olga", "omar")
	if _, err := s.server.CreatePolicy(t.Context(), &adminpb.CreatePolicyRequest{Parent: location, PolicyId: "shop", Policy: newPolicy("package envoy.authz\n\nallow := true\n")}); err != nil {
		t.Fatal(err)
	}
	olga := s.as("olga")
	var open []*http.Response
	for range 64 {
		r := olga.ask("/ui/" + location)
		if r.StatusCode != http.StatusOK {
			_ = r.Body.Close()
			break
		}
		open = append(open, r) //nolint:bodyclose // in the end
	}
	if len(open) != 16 {
		t.Errorf("one caller has %d live pages, want 16", len(open))
	}
	other := s.as("omar").ask("/ui/" + location)
	defer other.Body.Close()
	if other.StatusCode == http.StatusServiceUnavailable {
		t.Error("another caller gets no place")
	}
	for _, r := range open {
		_ = r.Body.Close()
	}
	for {
		again := olga.ask("/ui/" + location)
		_ = again.Body.Close()
		if again.StatusCode == http.StatusOK {
			return // the server has seen that they have ended
		}
	}
}

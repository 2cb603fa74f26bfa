package ui_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
)

// addresses are all pages of a rehearsed experiment.
var addresses = []string{
	"/ui/" + location, "/ui/" + location + "/stages", "/ui/" + policy, "/ui/" + trial, "/ui/" + trial + "/commit",
	"/ui/" + trial + "?sort=-requests&kind=denied&q=health", "/ui/" + trial + "?q=nothing+has+this&sort=path",
}

// TestPagesWithoutAnything: a location that is new says what to do.
func TestPagesWithoutAnything(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/ui/" + location, "/ui/" + location + "/stages"} {
		a := s.get(path)
		if a.code != http.StatusOK || !strings.Contains(a.body, "understudy ") {
			t.Errorf("GET %s: got %d without a command that helps\n%s", path, a.code, a.body)
		}
		checkPage(t, path, a)
	}
	if a := s.get("/ui/"); a.code != http.StatusFound || a.header.Get("Location") != "/ui/"+location {
		t.Errorf("GET /ui/: got %d to %s, want 302 to the location", a.code, a.header.Get("Location"))
	}
	if a := s.get("/"); a.code != http.StatusFound || a.header.Get("Location") != "/ui/" {
		t.Errorf("GET /: got %d to %s, want 302 to /ui/", a.code, a.header.Get("Location"))
	}
}

// TestPagesOfARehearsal: what the report says is on the page, the verdict in the words of
// the commands.
func TestPagesOfARehearsal(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	s.beat("n1", 0, policy)
	s.publish("n1", someEvidence(), somePoints()...)
	for _, path := range addresses {
		checkPage(t, path, s.get(path))
	}
	page := textOf(t, s.page(trial))
	for _, want := range []string{
		"Look first", "newly denied 70 7%", "The live policy allows 1,000 and denies 0 of these",
		"newly denied and newly allowed are shares of that",
		"70 of 1,000 requests that the live policy allows would be newly denied (7%) and 30 of 930 with the same result answered differently (3.2%); 70 of 80 requests of GET /health/* would be newly denied; 2 of 3 items were not seen.", "on 1 of 1 sidecar", "for 1m",
		"70 of 80", "GET /health/*", "allowed → 403", "shop.rego:7", "input.operator", "only operators", "/health/7", "spiffe://x/sa/web", "decision d-1",
		"header x-plan", "Newly denied, by team web 70", "2 of 3 items were not seen", "○ unseen", "● seen",
		"seen condition, added shop.rego:7 data.envoy.authz.allow none input.operator True for 12 examined requests, false for 3",
		"unseen rule, added shop.rego:12 data.envoy.authz.more none more if false No request needed it",
		"None: the live policy decided 20 requests twice", "Requests that differ, per minute", s.policyAt(policy).Etag, s.experimentAt(trial).Etag,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
	for _, want := range []string{"An etag marks one version", "A revision is a content", "Noise is how often", "An item is one thing"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not explain its words with %q:\n%s", want, page)
		}
	}
	if want := `data-topic="Look first previewing"`; !strings.Contains(s.page(trial), want) {
		t.Errorf("the verdict has no %s, by which it is spoken", want)
	}
	page = textOf(t, s.page(location))
	for _, want := range []string{"on 1 of 1 sidecar", "tighter", "previewing", "1,000", "100 (70 newly denied)", "Look first", "n1", "up to date"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of the location does not say %q:\n%s", want, page)
		}
	}
}

// TestSidecarsThatAreNotWell are shown first, with what is wrong.
func TestSidecarsThatAreNotWell(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	s.beat("a-good", 0, policy)
	s.beat("b-behind", time.Hour, policy)
	broken := s.beat("c-broken", 0, policy)
	broken.Error, broken.Observing = &status.Status{Code: 9, Message: "it does not compile"}, true
	if _, err := s.store.Heartbeat(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	page := textOf(t, s.page(location))
	for _, want := range []string{"3 sidecars live; 2 of 3 not well", "error, watching", "it does not compile", "behind", "it has not applied the last change", "on 1 of 3 sidecars"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
	if first, last := strings.Index(page, "c-broken"), strings.Index(page, "a-good"); first > last {
		t.Errorf("a sidecar that is well is before one that is not:\n%s", page)
	}
}

// TestNoDefaultPolicy: sidecars that deny because their default policy does not exist are
// not called up to date, and the page says what to do. Other policies are enforced there.
func TestNoDefaultPolicy(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	for _, id := range []string{"n1", "n2", "n3"} {
		n := s.beat(id, 0, policy)
		n.DefaultPolicy, n.Observing = location+"/policies/default", id == "n3"
		if id == "n2" {
			n.DefaultPolicy = policy
		}
		if _, err := s.store.Heartbeat(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	page := textOf(t, s.page(location))
	for _, want := range []string{
		"3 sidecars live; 2 of 3 not well", "denies: no policy default", "n2 up to date", "on 3 of 3 sidecars",
		"1 sidecar denies each request that names no policy. There is no policy default (--policy) in the location",
		"1 sidecar would deny each request", "Create it with `understudy apply default -f FILE`",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
	checkPage(t, "/ui/"+location, s.get("/ui/"+location))
}

// marker is what would be an element, an attribute, a script or the end of a string if it
// were not escaped where it stands.
const marker = `"><marker data-marker="1" onmouseover=alert(1)>'</script></style></title></textarea><script>alert(1)</script>` + "`{{.}}javascript:alert(1)&lt;\u202e\x00"

// TestHostileContentIsText: whatever others wrote, in every field, is shown as text.
func TestHostileContentIsText(t *testing.T) {
	s := newSite(t)
	at := timestamppb.Now()
	p := newPolicy("package envoy.authz\n\nallow := true # " + strings.ReplaceAll(marker, "\x00", "") + "\n")
	short := `"><marker data-marker=1>'javascript:alert(1)`
	p.DisplayName, p.Rules[0].RuleId = short, short
	p.Data = document(s, map[string]any{short: map[string]any{"b": short}, "list": []any{short}})
	p.Annotations = map[string]string{"x.example.com/y": marker}
	if _, err := s.server.CreatePolicy(t.Context(), &adminpb.CreatePolicyRequest{Parent: location, PolicyId: "shop", Policy: p}); err != nil {
		t.Fatal(err)
	}
	candidate := newPolicy("package envoy.authz\n\nallow if data[\"<marker>\"] == \"" + "<marker a='b'>" + "\" # <marker>" + strings.ReplaceAll(marker, "\x00", "") + "\n")
	candidate.Name, candidate.DisplayName = policy, "<marker>"+short[:40]
	candidate.Data = document(s, map[string]any{"<marker>": short, "list": []any{"<marker>\u202e"}})
	candidate.Modules[short+".rego"] = "package x # <marker>\n"
	if _, err := s.server.CreatePolicyExperiment(t.Context(), &adminpb.CreatePolicyExperimentRequest{
		Parent: policy, PolicyExperimentId: "tighter", PolicyExperiment: &adminpb.PolicyExperiment{
			Policy: candidate, DisplayName: short, Annotations: map[string]string{"x.example.com/y": marker},
		},
	}); err != nil {
		t.Fatal(err)
	}
	s.start()
	node := s.beat("n1", 0, policy)
	node.Error = &status.Status{Code: 9, Message: marker}
	if _, err := s.store.Heartbeat(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	utf8 := strings.ReplaceAll(marker, "\x00", "\\0")
	pair := someEvidence()
	pair.Counts.Dropped, pair.Drops = 5, map[string]int64{utf8: 5}
	pair.Labels = []*evidencepb.Label{{Label: utf8, Kind: 1, Total: 70, Values: []*evidencepb.Label_Value{{Value: utf8, Count: 70}}}}
	for i := range pair.Groups {
		g := pair.Groups[i]
		g.Method, g.Pattern, g.Rule, g.Reason, g.Changes = utf8, utf8, utf8, utf8, []string{utf8}
		g.Causes = []*evidencepb.Cause{{File: utf8, Line: 3, Text: utf8}}
		g.Examples = []*evidencepb.Example{{Method: utf8, Path: utf8, Principal: utf8, Labels: map[string]string{utf8: utf8}, DecisionId: utf8, DecideTime: at}}
	}
	s.publish("n1", pair, somePoints()...)
	seen := 0
	turned := regexp.MustCompile("[\u202a-\u202e\u2066-\u2069\u200b]")
	for _, path := range append(slices.Clone(addresses), "/ui/"+trial+"?q=%22%3E%3Cmarker%3E&sort=%22%3E%3Cmarker%3E&kind=%3Cmarker%3E",
		"/ui/"+location+"/%3Cmarker%3E", "/ui/projects/%22%3E%3Cmarker%3E/locations/l1", "/ui/"+location+"?page=%3Cmarker%3E") {
		a := s.get(path)
		checkPage(t, path, a)
		if found := turned.FindStringIndex(a.body); found != nil {
			t.Errorf("%s: a character that turns the direction of reading is not written out: %q", path, a.body[max(0, found[0]-60):found[1]])
		}
		seen += strings.Count(textOf(t, a.body), "marker")
	}
	if seen < 30 {
		t.Errorf("the pages show what was written %d times as text; the test reaches too little of them", seen)
	}
}

// TestManyGroups: 200 groups are one page.
func TestManyGroups(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	s.beat("n1", 0, policy)
	s.publish("n1", manyGroups(200))
	a := s.get("/ui/" + trial)
	checkPage(t, "200 groups", a)
	if got := strings.Count(a.body, `<details id="g`); got != 200 {
		t.Errorf("the page has %d groups, want 200", got)
	}
	for query, want := range map[string]string{
		"?sort=requests": "/p0", "?sort=-requests": "/p9", "?sort=path": "/p0", "?sort=-path": "/p9", "?q=REASON+042": "/p2", "?sort=nonsense": "/p9",
	} {
		if got := firstPath.FindStringSubmatch(s.page(trial, query)); got == nil || got[1] != want {
			t.Errorf("%s: the first group is %v, want %s", query, got, want)
		}
	}
	if got := strings.Count(s.page(trial, "?q=reason+042"), `<details id="g`); got != 1 {
		t.Errorf("?q=reason 042: the page has %d groups, want 1", got)
	}
	if got := strings.Count(s.page(trial, "?kind=allowed"), `<details id="g`); got != 0 {
		t.Errorf("?kind=allowed: the page has %d groups, want none", got)
	}
	if page := s.page(trial, "?sort=-requests"); !strings.Contains(page, `aria-sort="descending"`) {
		t.Error("no column says that it is sorted by")
	}
}

// firstPath finds the path of the first group.
var firstPath = regexp.MustCompile(`<summary><code>GET ([^<]*)</code>`)

// manyGroups is evidence with so many groups, each with examples.
func manyGroups(n int) *evidencepb.Pair {
	pair := &evidencepb.Pair{Counts: &evidencepb.Counts{BothAllow: 1000}}
	at := timestamppb.Now()
	for i := range n {
		count := int64(i + 1)
		pair.Counts.NewlyDenied += count
		g := &evidencepb.Group{
			Kind: 1, Method: "GET", Pattern: fmt.Sprintf("/p%d", i%10), Reason: fmt.Sprintf("reason %03d", i), Count: count, ExperimentStatus: 403, FirstTime: at, LastTime: at,
			Causes: []*evidencepb.Cause{{File: "shop.rego", Line: 3, Text: "input.x"}},
		}
		for range 3 {
			g.Examples = append(g.Examples, &evidencepb.Example{Method: "GET", Path: fmt.Sprintf("/p%d", i%10), Principal: "spiffe://x/sa/web", DecideTime: at})
		}
		pair.Groups = append(pair.Groups, g)
	}
	return pair
}

// TestAssetsAreOurs: the script is short, and nothing names another host.
func TestAssetsAreOurs(t *testing.T) {
	script, err := os.ReadFile("assets/ui.js")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(script), "\n"); lines >= 200 {
		t.Errorf("the script has %d lines, want fewer than 200", lines)
	}
	foreign := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9-]+\.[a-z]`)
	for _, folder := range []string{"assets", "pages"} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			content, err := os.ReadFile(folder + "/" + e.Name())
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(string(content), "http://www.w3.org/2000/svg", "")
			if found := foreign.FindString(text); found != "" || strings.Contains(text, "@import") {
				t.Errorf("%s names another host: %s", e.Name(), found)
			}
		}
	}
	s := newSite(t)
	for _, address := range regexp.MustCompile(`/ui/assets/[^"]+`).FindAllString(s.page(location), -1) {
		if a := s.get(address); a.code != http.StatusOK || !strings.Contains(a.header.Get("Cache-Control"), "immutable") || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("GET %s: got %d %v", address, a.code, a.header)
		}
	}
}

// textOf is what a page shows, with one space between words.
func textOf(t *testing.T, page string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
			b.WriteByte(' ')
		}
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	return strings.NewReplacer(" ,", ",", " .", ".").Replace(text)
}

// TestAChangeFarOutOnALine: of a line that is too long, what is shown is where it differs.
func TestAChangeFarOutOnALine(t *testing.T) {
	s := newSite(t)
	long := strings.Repeat("x", 5000)
	p := newPolicy("package envoy.authz\n\nallow := true # " + long + "live" + long + "\n")
	if _, err := s.server.CreatePolicy(t.Context(), &adminpb.CreatePolicyRequest{Parent: location, PolicyId: "shop", Policy: p}); err != nil {
		t.Fatal(err)
	}
	s.experiment("package envoy.authz\n\nallow := true # " + long + "other" + long + "\n")
	page := textOf(t, s.page(trial))
	for _, want := range []string{"xlivex", "xotherx", "more bytes"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not show %q of a line that is too long", want)
		}
	}
}

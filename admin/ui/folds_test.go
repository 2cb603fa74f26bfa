package ui_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	evidencepb "understudy/authz/evidence/v1"
)

// long is a module of many lines, of which one has a text.
func long(lines, at int, text string) string {
	var b strings.Builder
	b.WriteString("package envoy.authz\n\nallow := true\n")
	for i := range lines {
		if i == at {
			fmt.Fprintf(&b, "# %s\n", text)
			continue
		}
		fmt.Fprintf(&b, "# line %d\n", i)
	}
	return b.String()
}

// folds finds what is folded: its ID, and how many lines it has.
var folds = regexp.MustCompile(`<details id="(fold-[0-9-]+)"><summary>([0-9]+) lines that both have</summary>`)

// TestEqualLinesAreFolded: of a module with one change that change is shown with its context,
// and what both have opens without a script.
func TestEqualLinesAreFolded(t *testing.T) {
	s := newSite(t)
	s.policyIn(location, "shop", long(75, 40, "before"))
	s.experiment(long(75, 40, "after"))
	a := s.get("/ui/" + trial)
	checkPage(t, "folded", a)
	found := folds.FindAllStringSubmatch(a.body, -1)
	if len(found) != 2 || found[0][2] != "40" || found[1][2] != "31" {
		t.Fatalf("folded are %v, want 40 lines and 31", found)
	}
	shown := regexp.MustCompile(`(?s)<details.*?</details>`).ReplaceAllString(a.body, "")
	for _, want := range []string{"# line 37", "# line 43", "# before", "# after"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is folded", want)
		}
	}
	for _, line := range []string{"# line 36<", "# line 44<", "# line 0<"} {
		if strings.Contains(shown, line) || !strings.Contains(a.body, line) {
			t.Errorf("%q is not folded, or cannot be opened", line)
		}
	}
}

// TestManyFoldedLines: what a page has no room for is said, and does not open.
func TestManyFoldedLines(t *testing.T) {
	s := newSite(t)
	s.policyIn(location, "shop", long(5000, 2500, "before"))
	s.experiment(long(5000, 2500, "after"))
	a := s.get("/ui/" + trial)
	checkPage(t, "many lines", a)
	if found := folds.FindAllString(a.body, -1); len(found) > 0 || !strings.Contains(a.body, `<p class="folded">2500 lines that both have</p>`) {
		t.Errorf("of 5,000 lines, %v open", found)
	}
	if len(a.body) > 100<<10 {
		t.Errorf("the page has %d bytes", len(a.body))
	}
}

// TestTheCommitPageSaysAllThatMatters: who would be concerned, what no request has shown and what
// was not compared is before the eyes of anyone who commits.
func TestTheCommitPageSaysAllThatMatters(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	s.beat("n1", 0, policy)
	pair := someEvidence()
	pair.Counts.Dropped, pair.Drops = 1500, map[string]int64{"queue_full": 1500}
	s.publish("n1", pair)
	for _, path := range []string{trial, trial + "/commit"} {
		page := textOf(t, s.page(path))
		for _, want := range []string{
			"70 of 80", "GET /health/*", "shop.rego:7", "input.operator", "spiffe://x/sa/web", "more if false", "2 of 3 items were not seen",
			"1,500 more requests were not compared, 60% of all: queue full 1,500. Nothing here is said of them.",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("%s does not say %q:\n%s", path, want, page)
			}
		}
		if groups := s.page(path); strings.Count(groups, `<details id="g`) != strings.Count(groups, `" open><summary><code>`) {
			t.Errorf("%s: of few groups, some are closed", path)
		}
	}
}

// TestManyRequestsInAMinute: the number at the top of a scale is there as a whole, however many
// digits it has.
func TestManyRequestsInAMinute(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	s.beat("n1", 0, policy)
	points := somePoints()
	points[0].Counts = &evidencepb.Counts{BothAllow: 1_259_083}
	s.publish("n1", someEvidence(), points...)
	page := s.page(trial)
	if !strings.Contains(page, `<span class="label peak">1,259,083</span>`) {
		t.Error("the scale does not say 1,259,083")
	}
	if strings.Contains(page, "<text") {
		t.Error("a plot has a text in its picture, which is stretched with it")
	}
}

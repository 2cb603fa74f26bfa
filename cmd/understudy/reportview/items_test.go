package reportview_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/reportview"
	"understudy/cmd/understudy/terminal"
)

// crowded is a report with as many items as one lists, with texts as long and as hostile as they get, and
// 4,000 more.
func crowded() *adminpb.Report {
	r := tightened()
	r.Differences, r.Items = nil, nil
	r.ItemCount, r.SeenItemCount, r.UnjudgedItemCount = 4064, 32, proto.Int64(4032)
	for i := range 64 {
		item := &adminpb.Report_Item{
			ItemId: fmt.Sprint(i), Kind: adminpb.Report_Item_ItemKind(1 + i%4), Side: adminpb.Report_Item_Side(1 + i%3), State: adminpb.Report_Item_UNSEEN, ItemCount: 1,
			File: strings.Repeat("|", 60), Line: 9, Rule: "data." + strings.Repeat("注文.", 30), DataPath: "data[" + strings.Repeat("'", 110) + "]",
			PolicyText: strings.Repeat("<", 120), ExperimentText: strings.Repeat("`\x1b", 60),
		}
		if i >= 32 {
			item.State, item.SeenCount = adminpb.Report_Item_SEEN, 1
		}
		r.Items = append(r.Items, item)
	}
	return r
}

// TestManyItemsFit: no list of items scrolls a terminal or is longer than a comment may be, and each says how
// many more there are.
func TestManyItemsFit(t *testing.T) {
	for _, width := range []int{40, 60, 80, 120} {
		lines := reportview.Lines(crowded(), reportview.Options{Width: width, Height: 40})
		text := strings.Join(strings.Fields(strings.Join(lines, "\n")), " ")
		if len(lines) >= 40 || !strings.Contains(text, "4,032 of 4,064 items were not seen") || !strings.Contains(text, " more") {
			t.Errorf("%d columns: got %d lines:\n%s", width, len(lines), text)
		}
		for _, l := range lines {
			if n := terminal.Columns(l); n > width || strings.Contains(l, "\x1b") {
				t.Errorf("%d columns: got %d in %q", width, n, l)
			}
		}
	}
	var out bytes.Buffer
	if err := reportview.Markdown(&out, crowded(), reportview.Options{}); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 65536 || strings.Count(out.String(), "\n  * ") != 42 || !strings.Contains(out.String(), "  * and 4,012 more\n") || !strings.Contains(out.String(), "  * and 12 more\n") {
		t.Errorf("as Markdown it has %d bytes:\n%s", out.Len(), out.String())
	}
}

// TestUnseenItemsFail: the test of the requirement on the change names what no request has shown, whether the
// requirement is not met or missing, and what somebody has accepted is none of it.
func TestUnseenItemsFail(t *testing.T) {
	r := tightened()
	r.Items, r.ItemCount, r.SeenItemCount, r.AcceptedItemCount = otherItems(), 1411, 37, 1
	unmet := &adminpb.Report_RequirementResult{Requirement: "unjudged=0", Have: "2.69% (38 of 1,411)", Need: "at least 100%"}
	for want, requirements := range map[string][]*adminpb.Report_RequirementResult{
		`name="unjudged=0">
      <failure message="has 2.69% (38 of 1,411), needs at least 100%">`: {unmet},
		`name="unjudged">
      <failure message="no requirement is about it, and 1,374 of 1,411 items were not seen, 1 of them accepted">`: {{Requirement: "newly-denied=25", Met: true}},
	} {
		r.Requirements = requirements
		var out bytes.Buffer
		if err := reportview.JUnit(&out, r, reportview.Options{}); err != nil {
			t.Fatal(err)
		}
		_, failure, found := strings.Cut(out.String(), want)
		failure, _, _ = strings.Cut(failure, "</failure>")
		if !found || !strings.Contains(failure, "`data.roles.auditor` + `settings.write`: no request needed it") || strings.Contains(failure, "legacy") {
			t.Errorf("got\n%s\nwant %s with the items that were not seen", out.String(), want)
		}
	}
}

// TestHintAboutItems: who leaves the requirement on the change out is shown how it is written.
func TestHintAboutItems(t *testing.T) {
	r := tightened()
	r.NewlyDeniedCount, r.RequestCount = 0, 4975
	r.Requirements = []*adminpb.Report_RequirementResult{{Requirement: "requests>=1", Met: true}}
	want := "no requirement is about unjudged, and 1 of 2 items was not seen: require unjudged=0, and accept what no request can show"
	if got := reportview.NotReady(r); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestWhatDiffersIsNotCutOff: however narrow the terminal is, the two sides of an item can be distinguished.
func TestWhatDiffersIsNotCutOff(t *testing.T) {
	r := tightened()
	same := strings.Repeat("abcdefgh", 12)
	r.Items = []*adminpb.Report_Item{{
		ItemId: "a4", Kind: adminpb.Report_Item_LITERAL, Side: adminpb.Report_Item_BOTH, State: adminpb.Report_Item_UNSEEN, ItemCount: 1,
		File: "policy.rego", Line: 14, PolicyText: `"` + same + `one/x"`, ExperimentText: `"` + same + `two/x"`,
	}}
	r.ItemCount, r.SeenItemCount = 1, 0
	for _, width := range []int{60, 80, 120} {
		for _, height := range []int{0, 12, 24, 60} {
			text := strings.Join(reportview.Lines(r, reportview.Options{Width: width, Height: height}), "\n")
			if height > 0 && height < 60 && !strings.Contains(text, "became") {
				continue // there is no room for any item
			}
			if !strings.Contains(text, "ghon") || !strings.Contains(text, "ghtw") {
				t.Errorf("%d×%d: the two sides look the same:\n%s", width, height, text)
			}
		}
	}
}

// TestSeenItemsAreShown: on a screen with room, in Markdown and with everything, each with how often it was
// seen.
func TestSeenItemsAreShown(t *testing.T) {
	r := tightened()
	r.Items, r.ItemCount, r.SeenItemCount, r.UnjudgedItemCount = nil, 9, 9, proto.Int64(0)
	for i := range 9 {
		r.Items = append(r.Items, &adminpb.Report_Item{
			ItemId: fmt.Sprint(i), Kind: adminpb.Report_Item_CONDITION, Side: adminpb.Report_Item_EXPERIMENT, State: adminpb.Report_Item_SEEN, ItemCount: 1, SeenCount: 1,
			File: "a.rego", Line: 9, ExperimentText: fmt.Sprintf("input.x == %d", i), RequestCount: int64(9 - i), FalseRequestCount: 100,
		})
	}
	for _, c := range []struct {
		options reportview.Options
		lines   int
	}{
		{reportview.Options{Width: 100, Height: 80}, 5},
		{reportview.Options{Width: 100, Height: 80, Everything: true}, 9},
		{reportview.Options{}, 5},
	} {
		text := strings.Join(reportview.Lines(r, c.options), "\n")
		if n := strings.Count(text, "input.x == "); n != c.lines || !strings.Contains(text, "true for 1 examined request, false for 100") {
			t.Errorf("%+v: %d items are shown, want %d, and of how few requests one was seen:\n%s", c.options, n, c.lines, text)
		}
	}
	var out bytes.Buffer
	if err := reportview.Markdown(&out, r, reportview.Options{}); err != nil {
		t.Fatal(err)
	}
	if first, last := strings.Index(out.String(), "input.x == 8"), strings.Index(out.String(), "input.x == 0"); first < 0 || last < first {
		t.Errorf("as Markdown the least seen is not first:\n%s", out.String())
	}
}

// TestAllowedUnjudgedItemsFail: a list that allows unjudged items is met, and the test about them fails all the same.
func TestAllowedUnjudgedItemsFail(t *testing.T) {
	r := tightened()
	r.NewlyDeniedCount, r.RequestCount = 0, 4975
	r.Requirements, r.RequirementsMet = []*adminpb.Report_RequirementResult{{Requirement: "requests>=1", Met: true}, {Requirement: "unjudged<=1", Met: true}}, true
	var out bytes.Buffer
	if err := reportview.Write(&out, "junit", r, reportview.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`failures="1"`, `name="unjudged&lt;=1"></testcase>`, `name="unjudged">`, `<failure message="1 of 2 items was not seen">`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant %s", out.String(), want)
		}
	}
}

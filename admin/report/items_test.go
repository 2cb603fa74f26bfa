package report_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/change"
)

// changed is a list of so many conditions, and of rows of tables.
func changed(conditions int, tables map[string]int) *change.List {
	list := &change.List{Digest: []byte("list")}
	for i := range conditions {
		list.Items = append(list.Items, change.Item{ID: fmt.Sprintf("c%d", i), Kind: change.Condition, Side: change.Candidate, File: "a.rego", Line: i + 1})
	}
	for _, table := range []string{"data.few", "data.users"} {
		for i := range tables[table] {
			list.Items = append(list.Items, change.Item{
				ID: fmt.Sprintf("%s%d", table, i), Kind: change.Data, Side: change.Candidate, Path: fmt.Sprintf("%s.r%d", table, i), Table: table,
			})
		}
	}
	return list
}

// listOf is the items of a report with a list of which some were shown by so many requests, each in a line:
// its ID or table, its state, and how many it stands for and were seen.
func listOf(list *change.List, pending int64, shown, untrue []int32) (r *adminpb.Report, lines []string) {
	r = report.Build(report.Input{
		PolicyEtag: "live", ExperimentEtag: "candidate", Change: list,
		Evidence: &evidencepb.Evidence{ExperimentEtag: "candidate", Pairs: []*evidencepb.Pair{{
			PolicyEtag: "live", Counts: &evidencepb.Counts{BothAllow: 100}, Pending: pending,
			Items: []*evidencepb.Items{{Digest: []byte("another"), Shown: []int32{9, 9, 9, 9}}, {Digest: list.Digest, Shown: shown, Untrue: untrue}},
		}}},
	})
	report.FinishItems(r, list)
	for _, item := range r.Items {
		name := item.ItemId
		if item.ItemCount > 1 {
			name = item.DataPath
		}
		lines = append(lines, fmt.Sprintf("%s %v %d of %d", name, item.State, item.SeenCount, item.ItemCount))
	}
	return r, lines
}

// ones is so many 1, after so many 0.
func ones(zeros, n int) []int32 {
	out := make([]int32, zeros, zeros+n)
	for range n {
		out = append(out, 1)
	}
	return out
}

// TestItemsAreSeen: what requests have shown of a place of the list that both have is the state of the item
// there; of another list's it is nothing.
func TestItemsAreSeen(t *testing.T) {
	list := &change.List{Digest: []byte("list"), More: 2, Items: []change.Item{
		{ID: "r", Kind: change.Rule}, {ID: "never", Kind: change.Condition}, {ID: "both", Kind: change.Condition},
		{ID: "no", Kind: change.Condition}, {ID: "l", Kind: change.Literal}, {ID: "d", Kind: change.Data}, {ID: "beyond", Kind: change.Data},
	}}
	r, got := listOf(list, 0, []int32{1, 12, 3, 0, 2, 0}, []int32{0, 0, 1, 5})
	want := []string{
		"never UNSEEN 0 of 1", "no UNSEEN 0 of 1", "d UNSEEN 0 of 1", "beyond UNSEEN 0 of 1", " UNSEEN 0 of 2",
		"r SEEN 1 of 1", "both SEEN 1 of 1", "l SEEN 1 of 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if r.ItemCount != 9 || r.SeenItemCount != 3 || report.Unjudged(r) != 6 {
		t.Errorf("of %d items, %d were seen and %d not, want 9, 3 and 6", r.ItemCount, r.SeenItemCount, report.Unjudged(r))
	}
	_, got = listOf(list, 7, []int32{0, 0, 3}, []int32{0, 0, 1})
	if got[1] != "r PENDING 0 of 1" {
		t.Errorf("with requests that are still to be examined, the list is %q", got)
	}
}

// TestTables: the rows of a large table are a line, but for few of them that were not seen; those of a small
// one are a line each.
func TestTables(t *testing.T) {
	for _, c := range []struct {
		name   string
		list   *change.List
		shown  []int32
		untrue []int32
		want   []string
	}{
		{"large", changed(1, map[string]int{"data.users": 500}), ones(464, 37), nil, []string{"c0 UNSEEN 0 of 1", "data.users UNSEEN 37 of 500"}},
		{"all of it seen", changed(1, map[string]int{"data.users": 9}), ones(0, 10), ones(0, 1), []string{"c0 SEEN 1 of 1", "data.users SEEN 9 of 9"}},
		{"two rows unseen", changed(0, map[string]int{"data.users": 500}), ones(2, 498), nil, []string{
			"data.users0 UNSEEN 0 of 1", "data.users1 UNSEEN 0 of 1", "data.users SEEN 498 of 498",
		}},
		{"all but one unseen", changed(0, map[string]int{"data.users": 9}), ones(8, 1), nil, []string{
			"data.users0 UNSEEN 0 of 1", "data.users1 UNSEEN 0 of 1", "data.users2 UNSEEN 0 of 1", "data.users3 UNSEEN 0 of 1", "data.users4 UNSEEN 0 of 1",
			"data.users5 UNSEEN 0 of 1", "data.users6 UNSEEN 0 of 1", "data.users7 UNSEEN 0 of 1", "data.users8 SEEN 1 of 1",
		}},
		{"small", changed(0, map[string]int{"data.few": 2, "data.users": 10}), ones(0, 1), nil, []string{
			"data.few1 UNSEEN 0 of 1", "data.users UNSEEN 0 of 10", "data.few0 SEEN 1 of 1",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, got := listOf(c.list, 0, c.shown, c.untrue)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if r.ItemCount != int64(len(c.list.Items)) {
				t.Errorf("the report counts %d items of %d", r.ItemCount, len(c.list.Items))
			}
		})
	}
}

// TestManyItems: a list has 64 lines, of which one is for what is beyond those that are examined, and what
// was not seen is among them.
func TestManyItems(t *testing.T) {
	list := changed(100, nil)
	list.More = 500
	r, got := listOf(list, 0, ones(0, 90), ones(0, 90))
	if len(got) != 64 || got[0] != "c90 UNSEEN 0 of 1" || got[10] != " UNSEEN 0 of 500" || got[11] != "c0 SEEN 1 of 1" {
		t.Errorf("got %d lines: %q", len(got), got)
	}
	if r.ItemCount != 600 || r.SeenItemCount != 90 {
		t.Errorf("the report counts %d items, %d seen", r.ItemCount, r.SeenItemCount)
	}
	if _, got = listOf(list, 0, nil, nil); len(got) != 64 || got[63] != " UNSEEN 0 of 500" {
		t.Errorf("got %d lines, the last is %q", len(got), got[len(got)-1])
	}
}

// TestChangeNotKnown: without a list, nothing is said of items, and nothing is ready.
func TestChangeNotKnown(t *testing.T) {
	r := report.Build(report.Input{PolicyEtag: "live", ExperimentEtag: "candidate"})
	report.FinishItems(r, nil)
	required, err := report.Parse("newly-denied=0")
	if err != nil {
		t.Fatal(err)
	}
	report.SetResults(r, nil, required, report.Committer{})
	if report.ChangeKnown(r) || len(r.Items) > 0 || report.Ready(r) || cmp.Diff(report.Missing(r), []string{"unjudged"}) != "" {
		t.Errorf("known is %v, ready is %v, missing are %q", report.ChangeKnown(r), report.Ready(r), report.Missing(r))
	}
}

// TestUnseenIsJudged: as long as an item is unjudged, a report with requirements is not ready, whatever they allow.
func TestUnseenIsJudged(t *testing.T) {
	for _, c := range []struct {
		required string
		shown    []int32
		ready    bool
	}{
		{"newly-denied=0,newly-allowed=0,failed=0", nil, false},
		{"newly-denied=0,newly-allowed=0,failed=0", ones(0, 3), true},
		{"newly-denied=0,unjudged=0", ones(0, 2), false},
		{"newly-denied=0,unjudged<=2", ones(0, 2), false},
		{"newly-denied=0,unjudged=0", ones(0, 3), true},
	} {
		list := changed(0, map[string]int{"data.few": 3})
		r, _ := listOf(list, 0, c.shown, nil)
		required, err := report.Parse(c.required)
		if err != nil {
			t.Fatal(err)
		}
		report.SetResults(r, nil, required, report.Committer{})
		if report.Ready(r) != c.ready {
			t.Errorf("%s with %d of 3 seen: ready is %v; missing are %q", c.required, r.SeenItemCount, report.Ready(r), report.Missing(r))
		}
	}
}

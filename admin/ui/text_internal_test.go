package ui

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	adminpb "understudy/admin/v1"
)

// TestMarks: a rule marks the lines that it has, anything else the line where it begins, and of two items on
// a line the one that is unseen counts.
func TestMarks(t *testing.T) {
	lines := []string{"package a", "", "allow if {", "\tinput.x", "\tinput.y", "}", "", "deny if false"}
	rule, condition := adminpb.Report_Item_RULE, adminpb.Report_Item_CONDITION
	seen, never := mark{"seen", "seen"}, mark{unseen, "unseen"}
	item := func(kind adminpb.Report_Item_ItemKind, line int32, state adminpb.Report_Item_State) *adminpb.Report_Item {
		return &adminpb.Report_Item{Kind: kind, Line: line, State: state}
	}
	for name, c := range map[string]struct {
		items []*adminpb.Report_Item
		want  map[int]mark
	}{
		"a rule": {
			[]*adminpb.Report_Item{item(rule, 3, adminpb.Report_Item_SEEN)},
			map[int]mark{3: seen, 4: {class: "seen"}, 5: {class: "seen"}, 6: {class: "seen"}},
		},
		"a condition": {[]*adminpb.Report_Item{item(condition, 4, adminpb.Report_Item_UNSEEN)}, map[int]mark{4: never}},
		"accepted":    {[]*adminpb.Report_Item{item(condition, 8, adminpb.Report_Item_ACCEPTED)}, map[int]mark{8: {unseen, "accepted"}}},
		"two on a line, the second unseen": {
			[]*adminpb.Report_Item{item(condition, 4, adminpb.Report_Item_SEEN), item(condition, 4, adminpb.Report_Item_UNSEEN)}, map[int]mark{4: never},
		},
		"two on a line, the first unseen": {
			[]*adminpb.Report_Item{item(condition, 4, adminpb.Report_Item_UNSEEN), item(condition, 4, adminpb.Report_Item_SEEN)}, map[int]mark{4: never},
		},
		"seen in a rule that is unseen": {
			[]*adminpb.Report_Item{item(condition, 4, adminpb.Report_Item_SEEN), item(rule, 3, adminpb.Report_Item_UNSEEN), item(condition, 5, adminpb.Report_Item_SEEN)},
			map[int]mark{3: never, 4: {class: unseen}, 5: {class: unseen}, 6: {class: unseen}},
		},
	} {
		if diff := cmp.Diff(c.want, marksOf(lines, c.items), cmp.AllowUnexported(mark{})); diff != "" {
			t.Errorf("%s (- want, + got):\n%s", name, diff)
		}
	}
}

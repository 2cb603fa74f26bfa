package ui

import (
	"testing"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// TestUnseenBy: each line that was not seen is listed, also where one acceptance is of all items, and each
// acceptance is made once.
func TestUnseenBy(t *testing.T) {
	a := &adminpb.Report_Item{ItemId: "a", Kind: adminpb.Report_Item_RULE, ItemCount: 1}
	b := &adminpb.Report_Item{ItemId: "b", Kind: adminpb.Report_Item_RULE, ItemCount: 1}
	all := &adminpb.Report_Item{ItemId: "c", ItemCount: 30}
	lines := []*adminpb.Report_Item{a, b}
	for name, test := range map[string]struct {
		doubts report.Doubts
		want   []string
	}{
		"one by one":  {report.Doubts{Items: lines, Unseen: lines}, []string{"Not seen: item:a", "Not seen: item:b"}},
		"all at once": {report.Doubts{Items: []*adminpb.Report_Item{all}, Unseen: lines, More: 28}, []string{"Not seen: ", "Not seen: ", "And 28 more items, not listed ", "Accepted at once: item:c"}},
	} {
		got := unseenBy(test.doubts)
		if len(got) != len(test.want) {
			t.Fatalf("%s: got %v, want %v", name, got, test.want)
		}
		for i, d := range got {
			if text := d.Text + " " + d.Value; text != test.want[i] {
				t.Errorf("%s: got %q, want %q", name, text, test.want[i])
			}
		}
	}
}

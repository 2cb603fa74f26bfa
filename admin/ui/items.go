package ui

import (
	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
)

// itemTables are the items in which the policies of a report differ.
type itemTables struct {
	// Summary says of how many of them nothing is known, or that all were seen.
	Summary string
	// Unseen says that there are such, and that nobody has accepted all of them.
	Unseen bool
	// Code are those of modules, and of the chain of filters; Data those of data.
	Code, Data []item
	// More says how many are in no line; empty if none are.
	More string
}

// item is an item as a table shows it.
type item struct {
	*adminpb.Report_Item
	// Anchor is the ID of its row.
	Anchor string
	// What is its kind, with what became of it, and Where is its file and line.
	What, Where string
	// PolicyText and ExperimentText are those of both sides, as people can distinguish them.
	PolicyText, ExperimentText string
	// State is what is known of it in a word, in a Tone, and Shown what requests have shown.
	State, Tone, Shown string
	decided
}

// itemStates :: state → its word and its tone. Nothing is said by the tone alone.
var itemStates = map[adminpb.Report_Item_State][2]string{
	adminpb.Report_Item_SEEN: {"seen", "good"}, adminpb.Report_Item_UNSEEN: {"unseen", "look"},
	adminpb.Report_Item_PENDING: {"not seen so far", "unknown"}, adminpb.Report_Item_ACCEPTED: {"accepted", "unknown"},
}

// itemsOf are those of a report.
func itemsOf(r *adminpb.Report) itemTables {
	t := itemTables{Summary: verdict.Unseen(r)}
	t.Unseen = report.Unjudged(r) > 0 || !report.ChangeKnown(r)
	if t.Summary != "" {
		t.Summary += verdict.NothingKnown(r)
	} else if r.ItemCount > 0 {
		t.Summary = verdict.Counted(r.ItemCount, "item") + ", each of which was seen"
	}
	left := r.ItemCount
	for _, one := range r.Items {
		left -= one.ItemCount
		row := newItem(r, one)
		switch one.Kind {
		case adminpb.Report_Item_ITEM_KIND_UNSPECIFIED:
			left += one.ItemCount
		case adminpb.Report_Item_DATA:
			t.Data = append(t.Data, row)
		default:
			t.Code = append(t.Code, row)
		}
	}
	if left > 0 {
		t.More = report.Number(left)
	}
	return t
}

// newItem is an item of a report.
func newItem(r *adminpb.Report, one *adminpb.Report_Item) item {
	state := itemStates[one.State]
	live, candidate := verdict.Sides(one)
	return item{
		PolicyText: live, ExperimentText: candidate,
		Report_Item: one, Anchor: "i" + versionOf(one.ItemId, one.DataPath), What: verdict.Became(one), Where: verdict.Place(one),
		State: state[0], Tone: state[1], Shown: verdict.Shown(one), decided: decidedOf(r, one),
	}
}

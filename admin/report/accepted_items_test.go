package report_test

import (
	"fmt"
	"strings"
	"testing"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/change"
)

// changeOf is a list of one rule, a table of so many rows, and more that are not examined.
func changeOf(rows, more int) *change.List {
	list := &change.List{Digest: []byte{byte(rows), byte(more)}, More: more}
	list.Items = append(list.Items, change.Item{ID: fmt.Sprintf("%020x", 0), Kind: change.Rule, Side: change.Candidate, File: "a.rego", Line: 7, Rule: "data.a.allow"})
	for i := range rows {
		list.Items = append(list.Items, change.Item{
			ID: fmt.Sprintf("%020x", i+1), Kind: change.Data, Side: change.Candidate, Path: fmt.Sprintf("data.users.u%d", i), Table: "data.users", Candidate: `"x"`,
		})
	}
	return list
}

// itemInput is what a report of a list is made of, whose first items have been shown.
func itemInput(list *change.List, shown ...int32) report.Input {
	return report.Input{PolicyEtag: "p", ExperimentEtag: "e", Change: list, Evidence: &evidencepb.Evidence{ExperimentEtag: "e", Pairs: []*evidencepb.Pair{{
		PolicyEtag: "p", Counts: &evidencepb.Counts{BothAllow: 100}, Items: []*evidencepb.Items{{Digest: list.Digest, Shown: shown}},
	}}}}
}

// acceptedItem is an acceptance of an item of the experiment e.
func acceptedItem(name, id string) *adminpb.Acceptance {
	return &adminpb.Acceptance{Name: name, Target: &adminpb.Acceptance_ItemId{ItemId: id}, ExperimentEtag: "e", PolicyEtag: "p"}
}

// accept returns a report with acceptances, as it is shown.
func accept(in report.Input, now report.AcceptanceContext, of ...*adminpb.Acceptance) *adminpb.Report {
	r := report.Build(in)
	now.Change = in.Change
	report.SetAcceptances(r, of, now)
	report.FinishItems(r, in.Change)
	return r
}

// lineOf is the line of a report that begins so; nil if there is none.
func lineOf(r *adminpb.Report, place string) *adminpb.Report_Item {
	for _, item := range r.Items {
		if strings.HasPrefix(item.Rule+item.DataPath, place) {
			return item
		}
	}
	return nil
}

// TestAcceptedItems: an item that was accepted counts as if it had been seen, as long as the policies
// differ in it; a table and all items can be accepted at once.
func TestAcceptedItems(t *testing.T) {
	few, many, beyond := changeOf(2, 0), changeOf(20, 0), changeOf(20, 5)
	table := lineOf(accept(itemInput(many), report.AcceptanceContext{}), "data.users").ItemId
	all := report.Build(itemInput(beyond)).ChangeId
	replaced := acceptedItem("replaced", few.Items[0].ID)
	replaced.State = adminpb.Acceptance_REPLACED
	for name, test := range map[string]struct {
		in       report.Input
		now      report.AcceptanceContext
		accepted *adminpb.Acceptance
		state    adminpb.Acceptance_State
		why      string
		// items is how many were accepted, and left how many are unjudged then.
		items, left int64
	}{
		"a rule":          {in: itemInput(few), accepted: acceptedItem("a", few.Items[0].ID), state: adminpb.Acceptance_IN_FORCE, items: 1, left: 2},
		"a row":           {in: itemInput(few, 1), accepted: acceptedItem("a", few.Items[2].ID), state: adminpb.Acceptance_IN_FORCE, items: 1, left: 1},
		"seen meanwhile":  {in: itemInput(few, 1), accepted: acceptedItem("a", few.Items[0].ID), state: adminpb.Acceptance_IN_FORCE, items: 0, left: 2},
		"a table":         {in: itemInput(many, 1, 0, 3), accepted: acceptedItem("a", table), state: adminpb.Acceptance_IN_FORCE, items: 19, left: 0},
		"another table":   {in: itemInput(changeOf(21, 0)), accepted: acceptedItem("a", table), state: adminpb.Acceptance_VOID, why: "the policies differ in something else now", left: 22},
		"everything":      {in: itemInput(beyond, 1), accepted: acceptedItem("a", all), state: adminpb.Acceptance_IN_FORCE, items: 25, left: 0},
		"everything else": {in: itemInput(changeOf(20, 6), 1), accepted: acceptedItem("a", all), state: adminpb.Acceptance_VOID, why: "something else now", left: 26},
		"replaced":        {in: itemInput(few), accepted: replaced, state: adminpb.Acceptance_REPLACED, why: "it was accepted again", left: 3},
		"four eyes": {
			in: itemInput(few), now: report.AcceptanceContext{FourEyes: true, Editors: []string{"ann"}}, accepted: acceptedItem("a", few.Items[0].ID),
			state: adminpb.Acceptance_VOID, why: "must not have set the policy", left: 3,
		},
	} {
		r := accept(test.in, test.now, test.accepted)
		if got := test.accepted; got.State != test.state || !strings.Contains(got.StateReason, test.why) || (test.why == "") != (got.StateReason == "") {
			t.Errorf("%s: got %s (%s), want %s (%s)", name, got.State, got.StateReason, test.state, test.why)
		}
		if r.AcceptedItemCount != test.items || report.Unjudged(r) != test.left {
			t.Errorf("%s: %d items were accepted, and %d are unjudged; want %d and %d", name, r.AcceptedItemCount, report.Unjudged(r), test.items, test.left)
		}
		for limit, met := range map[int64]bool{test.left: true, test.left - 1: false} {
			judged := report.Judge(&adminpb.CommitRequirements{MaxUnjudgedCount: &limit}, adminpb.Report_RequirementResult_CALL, r, report.Committer{})
			if judged[0].Met != met {
				t.Errorf("%s: %v", name, judged[0])
			}
		}
	}
	for what, other := range map[string]report.Input{
		"experiment": {PolicyEtag: "p", ExperimentEtag: "f", Change: few}, "live rules": {PolicyEtag: "q", ExperimentEtag: "e", Change: few},
	} {
		a := acceptedItem("a", few.Items[0].ID)
		if r := accept(other, report.AcceptanceContext{RulesEtag: "new"}, a); a.State != adminpb.Acceptance_VOID || r.AcceptedItemCount != 0 {
			t.Errorf("of another %s: got %v and %d accepted", what, a, r.AcceptedItemCount)
		}
	}
	a := acceptedItem("a", few.Items[0].ID)
	if r := accept(report.Input{PolicyEtag: "p", ExperimentEtag: "e"}, report.AcceptanceContext{}, a); a.State != adminpb.Acceptance_STATE_UNSPECIFIED || r.UnjudgedItemCount != nil {
		t.Errorf("where it is not known in what they differ: got %v", a)
	}
}

// TestAcceptedDataOfAnotherPolicy: a change of the live policy's data leaves an acceptance as it is, if
// the policies still differ in the item.
func TestAcceptedDataOfAnotherPolicy(t *testing.T) {
	list := changeOf(2, 0)
	in := itemInput(list)
	in.PolicyEtag = "q"
	a := acceptedItem("a", list.Items[1].ID)
	a.RulesEtag = "r"
	if r := accept(in, report.AcceptanceContext{RulesEtag: "r"}, a); a.State != adminpb.Acceptance_IN_FORCE || r.AcceptedItemCount != 1 {
		t.Errorf("got %v, and %d accepted", a, r.AcceptedItemCount)
	}
}

// TestItemsKeepWhatWasUsed: a commit keeps those acceptances of items that it was judged by, also those
// for which there is no room in the list.
func TestItemsKeepWhatWasUsed(t *testing.T) {
	list := &change.List{Digest: []byte("d")}
	for i := range 100 {
		list.Items = append(list.Items, change.Item{ID: fmt.Sprintf("%020x", i), Kind: change.Rule, Side: change.Candidate, Rule: "data.a.b"})
	}
	r := accept(itemInput(list, 1), report.AcceptanceContext{}, acceptedItem("of seen", list.Items[0].ID), acceptedItem("used", list.Items[99].ID), acceptedItem("of none", strings.Repeat("f", 20)))
	if r.AcceptedItemCount != 1 {
		t.Fatalf("%d items were accepted, want 1", r.AcceptedItemCount)
	}
	report.KeepUsed(r)
	var names []string
	for _, a := range r.Acceptances {
		names = append(names, a.Name)
	}
	// The item that was seen is not listed, so nobody knows that its acceptance was not needed.
	if got := strings.Join(names, ", "); got != "of seen, used" {
		t.Errorf("kept are %s", got)
	}
	small := accept(itemInput(changeOf(1, 0), 1), report.AcceptanceContext{}, acceptedItem("of seen", fmt.Sprintf("%020x", 0)))
	if report.KeepUsed(small); len(small.Acceptances) != 0 || small.Items[1].Acceptance != "" {
		t.Errorf("of an item that was seen, kept is %v", small.Acceptances)
	}
}

// Package table_test holds what verdicts say against what is true, change by change: README.md.
package table_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/change"
)

// required is what is required of a change of which nobody says more.
const required = "requests>=1,newly-allowed=0,newly-denied=0,failed=0,dropped<=1%,unjudged=0"

// The etags of the two sides.
const liveEtag, candidateEtag = "live", "candidate"

// TestTable has the report of each traffic say what is true, where the row does not say that it is known
// to be wrong.
func TestTable(t *testing.T) {
	for _, r := range readRows(t) {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			list, err := authz.Items(t.Context(), r.live.message(t), r.candidate.message(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, traffic := range traffics {
				made := reportOf(t, r.evidence(t, traffic), list)
				problems := slices.Concat(r.wrongItems(list), r.wrongReport(traffic, made, list))
				switch why := r.known[traffic]; {
				case why == "" && len(problems) > 0:
					t.Errorf("%s: %s\n%s", traffic, verdict.Of(made), strings.Join(problems, "\n"))
				case why != "" && len(problems) == 0:
					t.Errorf("%s: it is right now; take out of known-wrong: %s", traffic, why)
				}
			}
		})
	}
}

// reportOf is what `understudy replay` makes of evidence.
func reportOf(t *testing.T, evidence *evidencepb.Evidence, list *change.List) *adminpb.Report {
	t.Helper()
	requirements, err := report.Parse(required)
	if err != nil {
		t.Fatal(err)
	}
	made := report.Build(report.Input{PolicyEtag: liveEtag, ExperimentEtag: candidateEtag, Evidence: evidence, Change: list})
	report.SetResults(made, nil, requirements, report.Committer{})
	return made
}

// wrongItems is where a list of items is not what a person has written down.
func (r *row) wrongItems(list *change.List) []string {
	var want, got []string
	for _, i := range r.items {
		want = append(want, i.String())
	}
	for _, i := range list.Items {
		got = append(got, found(i).String())
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || list.More > 0 {
		return []string{fmt.Sprintf("items, -true +found, and %d more:\n%s", list.More, diff)}
	}
	return nil
}

// wrongReport is where a report says something else than is true.
func (r *row) wrongReport(traffic string, made *adminpb.Report, list *change.List) (out []string) {
	want, said := *r.truths[traffic], verdict.Of(made)
	got := truth{
		compared: made.RequestCount, denied: made.NewlyDeniedCount, allowed: made.NewlyAllowedCount, changed: made.ResponseChangedCount,
		failed: made.FailedCount, seen: r.seenIn(made, list), verdict: said.Word,
	}
	want.seen = slices.Sorted(slices.Values(want.seen))
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(truth{})); diff != "" {
		out = append(out, "report, -true +said:\n"+diff)
	}
	if report.Ready(made) != (want.verdict == "Ready") {
		out = append(out, "whether it is ready is not what the verdict has to be")
	}
	dropped := int64(len(r.mixed(meets))) - want.compared
	if traffic != overloaded {
		dropped = 0
	}
	if made.DroppedCount != dropped || (dropped > 0) != strings.Contains(said.Why, "not compared") {
		out = append(out, fmt.Sprintf("%d are not compared, and the verdict has to say so; it has %d", dropped, made.DroppedCount))
	}
	if dropped > 0 && made.Estimate.GetRequestCount() != oneIn*want.compared {
		out = append(out, fmt.Sprintf("what was compared stands for %d, want %d", made.Estimate.GetRequestCount(), oneIn*want.compared))
	}
	if unseen := len(r.items) - len(want.seen); strings.Contains(said.Why, " not seen") != (unseen > 0) ||
		unseen > 0 && !strings.Contains(said.Why, fmt.Sprintf("%d of %d item", unseen, len(r.items))) {
		out = append(out, fmt.Sprintf("%d of %d items are not seen, and the verdict has to say so", unseen, len(r.items)))
	}
	return append(out, wrongLines(made, list)...)
}

// seenIn are the labels of the items that a report says were seen, in order.
func (r *row) seenIn(made *adminpb.Report, list *change.List) (labels []string) {
	for i, of := range list.Items {
		if made.Items[i].ItemId != of.ID || made.Items[i].State != adminpb.Report_Item_SEEN {
			continue
		}
		at := slices.IndexFunc(r.items, func(i item) bool { return i.String() == found(of).String() })
		if at >= 0 {
			labels = append(labels, r.items[at].label)
		} else {
			labels = append(labels, found(of).String())
		}
	}
	slices.Sort(labels)
	return labels
}

// wrongLines is where the list that people read does not have all items, or hides what was not seen behind
// what was.
func wrongLines(made *adminpb.Report, list *change.List) (out []string) {
	report.FinishItems(made, list)
	var items, seen int64
	for i, line := range made.Items {
		items, seen = items+line.ItemCount, seen+line.SeenCount
		if i > 0 && line.State == adminpb.Report_Item_UNSEEN && made.Items[i-1].State == adminpb.Report_Item_SEEN {
			out = append(out, "what was not seen comes after what was")
		}
	}
	if items != made.ItemCount || seen != made.SeenItemCount {
		out = append(out, fmt.Sprintf("its lines have %d items and %d seen ones of %d and %d", items, seen, made.ItemCount, made.SeenItemCount))
	}
	return out
}

// message is a side as the product has it.
func (p policy) message(t *testing.T) *adminpb.Policy {
	t.Helper()
	data, err := structpb.NewStruct(p.data)
	if err != nil {
		t.Fatal(err)
	}
	return &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{RuleId: "main", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: p.modules, Data: data,
	}
}

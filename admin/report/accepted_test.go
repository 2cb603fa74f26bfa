package report_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
)

// TestGroupID is another one for whatever makes another group, and for nothing else.
func TestGroupID(t *testing.T) {
	base := func() *evidencepb.Group {
		return &evidencepb.Group{
			Kind: int32(adminpb.Report_NEWLY_DENIED), Method: "GET", Pattern: "/a/*", Rule: "main", Reason: "no", ExperimentStatus: 403, Changes: []string{"a", "b"},
		}
	}
	for what, change := range map[string]func(*evidencepb.Group){
		"kind": func(d *evidencepb.Group) { d.Kind = int32(adminpb.Report_FAILED) }, "method": func(d *evidencepb.Group) { d.Method = "PUT" },
		"path": func(d *evidencepb.Group) { d.Pattern = "/*/*" }, "rule": func(d *evidencepb.Group) { d.Rule = "other" },
		"reason":            func(d *evidencepb.Group) { d.Reason = "not" },
		"policy status":     func(d *evidencepb.Group) { d.PolicyStatus, d.ExperimentStatus = 403, 0 },
		"experiment status": func(d *evidencepb.Group) { d.ExperimentStatus = 404 },
		"changes":           func(d *evidencepb.Group) { d.Changes = []string{"ab"} },
		"cause":             func(d *evidencepb.Group) { d.Causes = []*evidencepb.Cause{{File: "a.rego", Line: 1, Text: "x"}} },
		"known cause":       func(d *evidencepb.Group) { d.Cause = []byte("12345678") },
		"what of two texts": func(d *evidencepb.Group) { d.Rule, d.Reason = "mainn", "o" },
	} {
		d := base()
		if change(d); report.GroupID(d) == report.GroupID(base()) {
			t.Errorf("a group with another %s has the same ID", what)
		}
	}
	same := base()
	same.Count, same.Callers = 7, set(1)
	if got, want := report.GroupID(same), report.GroupID(base()); got != want || len(got) != 20 {
		t.Errorf("a group that has more requests has the ID %s, want %s", got, want)
	}
}

// TestAccepted counts by kind what is in force, each group once, and nothing else.
func TestAccepted(t *testing.T) {
	r := &adminpb.Report{ExperimentEtag: "e", PolicyEtag: "p", RequestCount: 150, NewlyDeniedCount: 70, FailedCount: 80, Differences: []*adminpb.Report_Difference{
		{Kind: adminpb.Report_NEWLY_DENIED, GroupId: "1", RequestCount: 10, CallerCount: 3}, {Kind: adminpb.Report_NEWLY_DENIED, GroupId: "2", RequestCount: 20},
		{Kind: adminpb.Report_NEWLY_DENIED, GroupId: "3", RequestCount: 40}, {Kind: adminpb.Report_FAILED, GroupId: "4", RequestCount: 80},
	}}
	accepted := func(name, group string, requests, callers int64) *adminpb.Acceptance {
		return &adminpb.Acceptance{
			Name: name, Target: &adminpb.Acceptance_GroupId{GroupId: group}, ExperimentEtag: "e", PolicyEtag: "p",
			MaxRequestCount: requests, MaxCallerCount: callers,
		}
	}
	report.SetAcceptances(r, []*adminpb.Acceptance{
		accepted("few requests", "1", 9, 9), accepted("enough", "1", 10, 3), accepted("more than enough", "1", 99, 9),
		accepted("too few", "2", 1, 1), accepted("failed", "4", 80, 1), accepted("of none", "5", 9, 9),
	}, report.AcceptanceContext{Seen: map[string]report.Seen{"1": {RequestCount: 10}, "2": {RequestCount: 20}, "4": {RequestCount: 80}}})
	want := []*adminpb.Report_KindCount{
		{Kind: adminpb.Report_NEWLY_DENIED, RequestCount: 10}, {Kind: adminpb.Report_FAILED, RequestCount: 80},
	}
	if diff := gocmp.Diff(want, r.AcceptedDifferences, protocmp.Transform()); diff != "" {
		t.Errorf("accepted are the groups 1 and 4 (- want, + got):\n%s", diff)
	}
	var states []string
	for _, a := range r.Acceptances {
		states = append(states, a.State.String())
	}
	if got := strings.Join(states, " "); got != "EXCEEDED IN_FORCE IN_FORCE EXCEEDED IN_FORCE VOID" {
		t.Errorf("the states are %s", got)
	}
	judged := report.Judge(&adminpb.CommitRequirements{MaxNewlyDeniedCount: proto.Int64(60)}, adminpb.Report_RequirementResult_CALL, r, report.Committer{})
	if !judged[0].Met {
		t.Errorf("60 of 70 newly denied requests were not accepted, and yet %v", judged[0])
	}
	report.KeepUsed(r)
	if len(r.Acceptances) != 2 || r.Differences[1].Acceptance != "" {
		t.Errorf("what was used is %v", r.Acceptances)
	}
}

// set is a stored set of callers.
func set(hashes ...uint32) []byte {
	out := []byte{0}
	for _, hash := range hashes {
		out = binary.BigEndian.AppendUint32(out, hash)
	}
	return out
}

// TestAcceptedCallersAndCauses holds one acceptance of 10 requests of the callers 1 and 2, for one
// cause, against what is seen of its group now.
func TestAcceptedCallersAndCauses(t *testing.T) {
	group := func(n int64, callers []byte, cause int32) *evidencepb.Group {
		g := &evidencepb.Group{Kind: int32(adminpb.Report_NEWLY_DENIED), Method: "GET", Pattern: "/a", Count: n, Callers: callers}
		if cause > 0 {
			g.Causes = []*evidencepb.Cause{{File: "a.rego", Line: cause, Text: "input.x"}}
		}
		return g
	}
	pair := func(live string, groups ...*evidencepb.Group) *evidencepb.Pair {
		return &evidencepb.Pair{PolicyEtag: live, Groups: groups}
	}
	for name, test := range map[string]struct {
		seen      *evidencepb.Evidence
		maxCaller int64
		state     adminpb.Acceptance_State
		why       string
	}{
		"the same":         {seen: &evidencepb.Evidence{Pairs: []*evidencepb.Pair{pair("p", group(10, set(1, 2), 4))}}, state: adminpb.Acceptance_IN_FORCE},
		"one of them":      {seen: &evidencepb.Evidence{Pairs: []*evidencepb.Pair{pair("p", group(10, set(2), 4))}}, state: adminpb.Acceptance_IN_FORCE},
		"one more":         {seen: &evidencepb.Evidence{Pairs: []*evidencepb.Pair{pair("p", group(10, set(1, 2, 3), 4))}}, state: adminpb.Acceptance_EXCEEDED, why: "3 callers, accepted were 2"},
		"others":           {seen: &evidencepb.Evidence{Pairs: []*evidencepb.Pair{pair("p", group(2, set(8, 9), 4))}}, state: adminpb.Acceptance_EXCEEDED, why: "4 callers, accepted were 2"},
		"others, accepted": {seen: &evidencepb.Evidence{Pairs: []*evidencepb.Pair{pair("p", group(2, set(8, 9), 4))}}, maxCaller: 4, state: adminpb.Acceptance_IN_FORCE},
		"another, elsewhere": {
			seen:  &evidencepb.Evidence{Pairs: []*evidencepb.Pair{pair("p", group(1, set(1), 4)), pair("q", group(1, set(3), 4))}},
			state: adminpb.Acceptance_EXCEEDED, why: "3 callers, accepted were 2",
		},
		"requests of all pairs": {
			seen: &evidencepb.Evidence{
				Pairs: []*evidencepb.Pair{pair("p", group(4, set(1), 4)), pair("q", group(4, set(1), 4))}, Earlier: pair("", group(3, set(2), 4)),
			},
			state: adminpb.Acceptance_EXCEEDED, why: "11 requests, accepted were 10",
		},
		"another cause":           {seen: &evidencepb.Evidence{Pairs: []*evidencepb.Pair{pair("p", group(10, set(1, 2), 7))}}, state: adminpb.Acceptance_VOID, why: "no such group"},
		"no known cause":          {seen: &evidencepb.Evidence{Pairs: []*evidencepb.Pair{pair("p", group(10, set(1, 2), 0))}}, state: adminpb.Acceptance_VOID, why: "no such group"},
		"another cause, too":      {seen: &evidencepb.Evidence{Pairs: []*evidencepb.Pair{pair("p", group(10, set(1, 2), 4), group(90, set(8, 9), 7))}}, state: adminpb.Acceptance_IN_FORCE},
		"nothing of this content": {seen: &evidencepb.Evidence{ExperimentEtag: "f", Pairs: []*evidencepb.Pair{pair("p", group(1, set(1), 4))}}, state: adminpb.Acceptance_VOID, why: "no such group"},
	} {
		test.seen.ExperimentEtag = cmp.Or(test.seen.ExperimentEtag, "e")
		in := report.Input{PolicyEtag: "p", ExperimentEtag: "e", Evidence: test.seen}
		r := report.Build(in)
		a := &adminpb.Acceptance{
			Name: "a", Target: &adminpb.Acceptance_GroupId{GroupId: report.GroupID(group(0, nil, 4))},
			ExperimentEtag: "e", PolicyEtag: "p", MaxRequestCount: 10, MaxCallerCount: max(2, test.maxCaller),
		}
		report.SetAcceptances(r, []*adminpb.Acceptance{a}, report.AcceptanceContext{Seen: report.SeenOf(in), Callers: map[string][]byte{"a": set(1, 2)}})
		if a.State != test.state || !strings.Contains(a.StateReason, test.why) {
			t.Errorf("%s: got %s (%s), want %s (%s)", name, a.State, a.StateReason, test.state, test.why)
		}
		if test.state == adminpb.Acceptance_IN_FORCE && r.AcceptedDifferences[0].RequestCount != report.GroupOf(r, a.GetGroupId()).GetRequestCount() {
			t.Errorf("%s: accepted are %v", name, r.AcceptedDifferences)
		}
	}
}

// TestTrimKeepsWhoAccepted, however much there is.
func TestTrimKeepsWhoAccepted(t *testing.T) {
	r := &adminpb.Report{}
	for i := range 50 {
		d := &adminpb.Report_Difference{Path: strings.Repeat("/x", 100), GroupId: fmt.Sprint(i)}
		r.Differences = append(r.Differences, d)
		r.Acceptances = append(r.Acceptances, &adminpb.Acceptance{
			Name: fmt.Sprintf("projects/p/locations/l/policies/shop/experiments/e/acceptances/a-%08d", i), Uid: strings.Repeat("u", 36),
			Reason: strings.Repeat("\U0001F600", 256), Difference: d, Creator: "oidc:https://login.example.com#" + strings.Repeat("c", 100), CreatorDisplay: "ann@example.com",
		})
	}
	const size = 48 << 10
	kept := report.Trim(r, size)
	if proto.Size(kept) > size || len(kept.Acceptances) != 50 || kept.Acceptances[0].Reason == "" {
		t.Errorf("the report has %d bytes and %d acceptances, the first for %q", proto.Size(kept), len(kept.Acceptances), kept.Acceptances[0].GetReason())
	}
	if r.Acceptances[0].Difference == nil {
		t.Error("the report itself was changed")
	}
}

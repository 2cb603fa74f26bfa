package report_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// rules are so many rules that differ, of which the first ones were evaluated.
func rules(all, evaluated int) []*adminpb.Report_ChangedRule {
	var out []*adminpb.Report_ChangedRule
	for i := range all {
		out = append(out, &adminpb.Report_ChangedRule{EvaluatedFalse: i < evaluated})
	}
	return out
}

// TestJudge holds one report against one requirement each.
func TestJudge(t *testing.T) {
	compared := &adminpb.Report{
		RequestCount: 9120, NewlyDeniedCount: 3, NewlyAllowedCount: 0, ResponseChangedCount: 912, FailedCount: 8, LiveFailedCount: 2,
		DroppedCount: 880, ActiveDuration: durationpb.New(52*time.Minute + 10*time.Second + 500*time.Millisecond),
		AllPairs: &adminpb.Report_ReportCounts{
			RequestCount: 1234567, NewlyDeniedCount: 4, NewlyAllowedCount: 1, FailedCount: 10, DroppedCount: 0,
		},
		AllPairsActiveDuration: durationpb.New(26 * time.Hour), NodeCount: 5, ReportingNodeCount: 3, ChangedRules: rules(5, 4),
	}
	examining := &adminpb.Report{RequestCount: 9, PendingRequestCount: 1234, UnexaminedRequestCount: 2, ChangedRules: rules(5, 4)}
	unexamined := &adminpb.Report{RequestCount: 9, UnexaminedRequestCount: 2}
	never := &adminpb.Report{}
	for _, test := range []struct {
		requirements string
		report       *adminpb.Report
		have, need   string
		met, never   bool
	}{
		{"requests>=10000", compared, "9,120", "at least 10,000", false, false},
		{"requests>=9120", compared, "9,120", "at least 9,120", true, false},
		{"requests>=10000,scope=all-pairs", compared, "1,234,567 over all pairs", "at least 10,000", true, false},
		{"requests>=1", never, "0", "at least 1", false, false},
		{"duration>=1h", compared, "52m10s", "at least 1h", false, false},
		{"duration>=52m10s", compared, "52m10s", "at least 52m10s", true, false},
		{"duration>=1h,scope=all-pairs", compared, "26h over all pairs", "at least 1h", true, false},
		{"duration>=1s", never, "0s", "at least 1s", false, false},
		{"newly-denied=0", compared, "3", "at most 0", false, true},
		{"newly-denied<=3", compared, "3", "at most 3", true, false},
		{"newly-denied<=3,scope=all-pairs", compared, "4 over all pairs", "at most 3", false, true},
		{"newly-denied=0", never, "0", "at most 0", true, false},
		{"newly-allowed=0,scope=present-pair", compared, "0", "at most 0", true, false},
		{"newly-allowed=0,scope=all-pairs", compared, "1 over all pairs", "at most 0", false, true},
		{"response-changed<=10%", compared, "10% (912 of 9,120)", "at most 10%", true, false},
		{"response-changed<=9.99%", compared, "10% (912 of 9,120)", "at most 9.99%", false, false},
		{"newly-denied<=0.01%", compared, "0.0329% (3 of 9,120)", "at most 0.01%", false, false},
		{"newly-denied<=0.01%,scope=all-pairs", compared, "0.000324% (4 of 1,234,567) over all pairs", "at most 0.01%", true, false},
		{"failed<=9", compared, "10", "at most 9", false, true},
		{"failed<=0.11%", compared, "0.11% (10 of 9,120)", "at most 0.11%", true, false},
		{"failed<=100%", never, "no requests", "at most 100%", false, false},
		{"dropped<=8%", compared, "8.8% (880 of 10,000)", "at most 8%", false, false},
		{"dropped=0", compared, "880", "at most 0", false, true},
		{"dropped<=0%", never, "no requests", "at most 0%", false, false},
		{"changed-rules>=90%", examining, "80% (4 of 5), 1,234 still being examined", "at least 90%", false, false},
		{"changed-rules>=80%", examining, "80% (4 of 5)", "at least 80%", true, false},
		{"changed-rules>=80%", unexamined, "not known, 2 could not be examined", "at least 80%", false, false},
		{"changed-rules>=80%", compared, "80% (4 of 5)", "at least 80%", true, false},
		{"changed-rules>=100%", compared, "80% (4 of 5)", "at least 100%", false, false},
		{
			"changed-rules>=50%", &adminpb.Report{ChangedRules: rules(4, 4), OtherChangedRuleCount: 5},
			"44.4% (4 of 9)", "at least 50%", false, false,
		},
		{"changed-rules>=100%", &adminpb.Report{RequestCount: 1}, "no rule differs", "at least 100%", true, false},
		{"changed-rules>=80%", never, "nothing compared", "at least 80%", false, false},
		{"all-nodes", compared, "3 of 5 nodes", "all nodes", false, false},
		{"all-nodes", &adminpb.Report{NodeCount: 2, ReportingNodeCount: 2}, "2 of 2 nodes", "all nodes", true, false},
		{"all-nodes", never, "no live node with the policy", "all nodes", false, false},
	} {
		r, err := report.Parse(test.requirements)
		if err != nil {
			t.Fatal(err)
		}
		results := report.Judge(r, adminpb.Report_RequirementResult_CALL, test.report, report.Committer{})
		if len(results) != 1 {
			t.Errorf("%s: %d results, want 1: %v", test.requirements, len(results), results)
			continue
		}
		got := results[0]
		if got.Have != test.have || got.Need != test.need || got.Met != test.met || got.Unreachable != test.never {
			t.Errorf("%s: have %q, need %q, met %v, unreachable %v; want %q, %q, %v, %v", test.requirements,
				got.Have, got.Need, got.Met, got.Unreachable, test.have, test.need, test.met, test.never)
		}
		if got.Source != adminpb.Report_RequirementResult_CALL {
			t.Errorf("%s: source %v, want CALL", test.requirements, got.Source)
		}
	}
}

// TestDifferentCommitter: whoever has set the policy cannot commit it, and where it is not known
// who has, nobody can.
func TestDifferentCommitter(t *testing.T) {
	r, err := report.Parse(report.DifferentCommitter)
	if err != nil {
		t.Fatal(err)
	}
	const unknown = "not known who has set the policy: create the experiment again"
	for _, test := range []struct {
		member     string
		editors    []string
		have       string
		met, never bool
	}{
		{"token:bob", []string{"token:ann"}, "token:bob", true, false},
		{"token:ann", []string{"token:ann"}, "token:ann, who has set the policy", false, false},
		{"token:bob", []string{"token:ann", "token:bob"}, "token:bob, who has set the policy", false, false},
		{"token:bob", nil, unknown, false, true},
		{"", []string{"token:ann"}, "nobody: the server does not authenticate its callers", false, true},
		{"", nil, "nobody: the server does not authenticate its callers", false, true},
	} {
		made := &adminpb.Report{}
		report.SetResults(made, r, nil, report.Committer{Member: test.member, Editors: test.editors})
		got := made.Requirements[0]
		if got.Have != test.have || got.Met != test.met || got.Unreachable != test.never || made.RequirementsMet != test.met {
			t.Errorf("%q of %q: have %q, met %v, unreachable %v; want %q, %v, %v", test.member, test.editors,
				got.Have, got.Met, got.Unreachable, test.have, test.met, test.never)
		}
		if got, want := report.OnlyAwaitsCommitter(made), !test.met && !test.never; got != want {
			t.Errorf("%q of %q: OnlyAwaitsCommitter is %v, want %v", test.member, test.editors, got, want)
		}
	}
}

// TestSetResults has the results of the location before those of the call, each as commands
// write it.
func TestSetResults(t *testing.T) {
	location, err := report.Parse("requests>=1,all-nodes")
	if err != nil {
		t.Fatal(err)
	}
	call, err := report.Parse("requests>=3,newly-denied<=0.1%,scope=all-pairs")
	if err != nil {
		t.Fatal(err)
	}
	r := &adminpb.Report{RequestCount: 2, NodeCount: 1, ReportingNodeCount: 1, AllPairs: &adminpb.Report_ReportCounts{RequestCount: 2}}
	report.SetResults(r, location, call, report.Committer{})
	var got []string
	for _, result := range r.Requirements {
		got = append(got, result.Source.String()+" "+result.Requirement)
	}
	want := []string{"LOCATION requests>=1", "LOCATION all-nodes", "CALL requests>=3", "CALL newly-denied<=0.1%"}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("result %d is %q, want %q", i, got[i], want[i])
		}
	}
	if unmet := report.Unmet(r); len(unmet) != 1 || unmet[0].Requirement != "requests>=3" || r.RequirementsMet {
		t.Errorf("unmet %v, requirements_met %v; want requests>=3 and false", unmet, r.RequirementsMet)
	}
	report.SetResults(r, location, nil, report.Committer{})
	if len(r.Requirements) != 2 || !r.RequirementsMet {
		t.Errorf("results %v, met %v; want two that are met", r.Requirements, r.RequirementsMet)
	}
	report.SetResults(r, nil, nil, report.Committer{})
	if len(r.Requirements) != 0 || !r.RequirementsMet {
		t.Errorf("results %v, met %v; want none, and met", r.Requirements, r.RequirementsMet)
	}
}

func TestDemands(t *testing.T) {
	for text, want := range map[string]bool{"": false, "scope=all-pairs": false, "newly-denied=0": true, "requests>=0": false, "all-nodes": true} {
		r, err := report.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := report.Demands(r); got != want {
			t.Errorf("Demands(%q) = %v, want %v", text, got, want)
		}
	}
	if report.Demands(nil) {
		t.Error("no requirements demand something")
	}
}

// TestUnjudged: what changes who gets in has to be judged by some requirement, whoever asks
// for it; a response that changed, and what failed in the live policy, has not.
func TestUnjudged(t *testing.T) {
	counts := &adminpb.Report{RequestCount: 100, NewlyDeniedCount: 1, NewlyAllowedCount: 2, FailedCount: 3, ResponseChangedCount: 4, LiveFailedCount: 5}
	for _, c := range []struct {
		location, call, want string
		report               *adminpb.Report
	}{
		{"", "", "", counts},
		{"", "requests>=1", "newly-denied newly-allowed failed", counts},
		{"", "requests>=1,newly-denied<=1%", "newly-allowed failed", counts},
		{"newly-allowed<=2", "newly-denied<=1,failed<=100%", "", counts},
		{"requests>=1", "", "newly-denied newly-allowed failed", counts},
		{"", "requests>=1", "", &adminpb.Report{RequestCount: 100, ResponseChangedCount: 4, LiveFailedCount: 5, DroppedCount: 9}},
	} {
		location, err := report.Parse(c.location)
		if err != nil {
			t.Fatal(err)
		}
		call, err := report.Parse(c.call)
		if err != nil {
			t.Fatal(err)
		}
		report.SetResults(c.report, location, call, report.Committer{})
		if got := strings.Join(report.Unjudged(c.report), " "); got != c.want {
			t.Errorf("%q and %q: got %q, want %q", c.location, c.call, got, c.want)
		}
		if ready := report.Ready(c.report); ready != (len(report.Unmet(c.report)) == 0 && c.want == "") {
			t.Errorf("%q and %q: ready is %v", c.location, c.call, ready)
		}
	}
}

package report_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// withItems sets how many items a report has, how many of them were seen, and how many accepted.
func withItems(r *adminpb.Report, all, seen, accepted int64) *adminpb.Report {
	r.ItemCount, r.SeenItemCount, r.AcceptedItemCount = all, seen, accepted
	r.UnjudgedItemCount = proto.Int64(all - seen - accepted)
	return r
}

// counted are the counts of a report: 6,212 requests that the live policy allows, 2,908 that it
// denies, 880 dropped of which chance chose all but 12, and 2 that it failed to decide.
func counted() *adminpb.Report_ReportCounts {
	return &adminpb.Report_ReportCounts{
		RequestCount: 9120, UnchangedCount: 8109, NewlyDeniedCount: 90, NewlyAllowedCount: 1, ResponseChangedCount: 912, FailedCount: 8,
		LiveFailedCount: 2, DroppedCount: 880, LostCount: 12, CallerCount: 7, EndpointCount: 3,
		PolicyAllows: &adminpb.Report_ResultCounts{RequestCount: 6212, UnchangedCount: 5203, ResponseChangedCount: 912, ResultChangedCount: 90, FailedCount: 7},
		PolicyDenies: &adminpb.Report_ResultCounts{RequestCount: 2908, UnchangedCount: 2906, ResultChangedCount: 1, FailedCount: 1},
	}
}

// TestJudge holds one report against one requirement each.
func TestJudge(t *testing.T) {
	compared := report.WithCounts(counted())
	compared.ActiveDuration = durationpb.New(52*time.Minute + 10*time.Second + 500*time.Millisecond)
	compared.AllPairs = &adminpb.Report_ReportCounts{
		RequestCount: 1234567, NewlyDeniedCount: 4, NewlyAllowedCount: 1, FailedCount: 10, CallerCount: 40, EndpointCount: 5,
		PolicyAllows: &adminpb.Report_ResultCounts{RequestCount: 1234560}, PolicyDenies: &adminpb.Report_ResultCounts{RequestCount: 7},
	}
	compared.AllPairsActiveDuration = durationpb.New(26 * time.Hour)
	compared.NodeCount, compared.ReportingNodeCount = 5, 3
	withItems(compared, 5, 3, 1)

	// Chance chose one of eight requests: counts are of those, and shares of what they stand for.
	sampled := report.WithCounts(counted())
	sampled.Estimate = counted()
	for _, n := range []*int64{&sampled.Estimate.NewlyDeniedCount, &sampled.Estimate.PolicyAllows.ResultChangedCount} {
		*n *= 8
	}
	sampled.Estimate.PolicyAllows.RequestCount += 7 * 90
	sampled.Estimate.RequestCount += 7 * 90
	sampled.EstimatedShares = []*adminpb.Report_EstimatedShare{
		{Kind: adminpb.Report_NEWLY_DENIED, EffectiveRequestCount: 48}, {Kind: adminpb.Report_NEWLY_ALLOWED, EffectiveRequestCount: 29.9},
		{Kind: adminpb.Report_FAILED, EffectiveRequestCount: 3000},
	}
	lossy := report.WithCounts(counted())
	lossy.LostCount = 93

	accepted := report.WithCounts(counted())
	accepted.AcceptedDifferences = []*adminpb.Report_KindCount{
		{Kind: adminpb.Report_NEWLY_DENIED, RequestCount: 80}, {Kind: adminpb.Report_FAILED, RequestCount: 8},
	}
	refused := report.WithCounts(&adminpb.Report_ReportCounts{
		RequestCount: 10000, UnchangedCount: 10000, PolicyDenies: &adminpb.Report_ResultCounts{RequestCount: 10000, UnchangedCount: 10000},
	})
	unknown := report.WithCounts(&adminpb.Report_ReportCounts{RequestCount: 9, PolicyAllows: &adminpb.Report_ResultCounts{RequestCount: 9}})
	failing := report.WithCounts(&adminpb.Report_ReportCounts{LiveFailedCount: 9})

	examining := withItems(&adminpb.Report{RequestCount: 9, PendingRequestCount: 1234, UnexaminedRequestCount: 2}, 5, 4, 0)
	unexamined := withItems(&adminpb.Report{RequestCount: 9, UnexaminedRequestCount: 2}, 5, 0, 0)
	never := &adminpb.Report{}
	for _, test := range []struct {
		requirements string
		report       *adminpb.Report
		have, need   string
		met, never   bool
	}{
		// What one side allows counts, anyone else who sends what.
		{"requests>=10000", compared, "6,213 (2,907 more that both deny do not count)", "at least 10,000", false, false},
		{"requests>=6213", compared, "6,213 (2,907 more that both deny do not count)", "at least 6,213", true, false},
		{"requests>=1000000,scope=all-pairs", compared, "1,234,561 (6 more that both deny do not count) over all pairs", "at least 1,000,000", true, false},
		{"requests>=9", unknown, "9", "at least 9", true, false},
		{"requests>=1", refused, "0 (10,000 more that both deny do not count)", "at least 1", false, false},
		{"requests>=1", never, "0", "at least 1", false, false},
		{"callers>=7", compared, "7", "at least 7", true, false},
		{"callers>=8", compared, "7", "at least 8", false, false},
		{"callers>=8,scope=all-pairs", compared, "about 40 (at least 34) over all pairs", "at least 8", true, false},
		{"callers>=1", unknown, "not known", "at least 1", false, false},
		{"callers>=1", refused, "0", "at least 1", false, false},
		{"endpoints>=3", compared, "3", "at least 3", true, false},
		{"endpoints>=4", compared, "3", "at least 4", false, false},
		{"endpoints>=4,scope=all-pairs", compared, "5 over all pairs", "at least 4", true, false},
		{"endpoints>=1", unknown, "not known", "at least 1", false, false},
		{"duration>=1h", compared, "52m10s", "at least 1h", false, false},
		{"duration>=52m10s", compared, "52m10s", "at least 52m10s", true, false},
		{"duration>=1h,scope=all-pairs", compared, "26h over all pairs", "at least 1h", true, false},
		{"duration>=1s", never, "0s", "at least 1s", false, false},

		// A count that is over stays so, and a share does not.
		{"newly-denied=0", compared, "90", "at most 0", false, true},
		{"newly-denied<=90", compared, "90", "at most 90", true, false},
		{"newly-denied<=3,scope=all-pairs", compared, "4 over all pairs", "at most 3", false, true},
		{"newly-denied=0", never, "0", "at most 0", true, false},
		{"newly-denied<=1%", compared, "1.45% (90 of 6,212 requests that the live policy allows)", "at most 1%", false, false},
		{"newly-denied<=1.45%", compared, "1.45% (90 of 6,212 requests that the live policy allows)", "at most 1.45%", true, false},
		{
			"newly-denied<=0.01%,scope=all-pairs", compared,
			"0.000324% (4 of 1,234,560 requests that the live policy allows) over all pairs", "at most 0.01%", true, false,
		},
		{"newly-denied<=1%", refused, "0 of 0 requests that the live policy allows", "at most 1%", true, false},
		{"newly-denied<=100%", never, "nothing compared", "at most 100%", false, false},
		{"newly-denied<=100%", failing, "nothing compared", "at most 100%", false, false},
		{"newly-allowed=0,scope=present-pair", compared, "1", "at most 0", false, true},
		{"newly-allowed<=0.03%", compared, "0.0344% (1 of 2,908 requests that the live policy denies)", "at most 0.03%", false, false},
		{"newly-allowed<=20%,scope=all-pairs", compared, "14.3% (1 of 7 requests that the live policy denies) over all pairs", "at most 20%", true, false},
		{"newly-allowed=0%", refused, "0% (0 of 10,000 requests that the live policy denies)", "at most 0%", true, false},
		{"response-changed<=911", compared, "912", "at most 911", false, true},
		{"response-changed<=10.11%", compared, "10.1% (912 of 9,021 requests with the same result)", "at most 10.11%", true, false},
		{"response-changed<=10.1%", compared, "10.1% (912 of 9,021 requests with the same result)", "at most 10.1%", false, false},

		// What the live policy failed to decide is no failure of the experiment: it was not compared.
		{"failed<=7", compared, "8", "at most 7", false, true},
		{"failed<=8", compared, "8", "at most 8", true, false},
		{"failed<=0.09%", compared, "0.0877% (8 of 9,120 requests compared)", "at most 0.09%", true, false},
		{"failed=0", failing, "0", "at most 0", true, false},
		{"failed<=100%", never, "nothing compared", "at most 100%", false, false},
		{"dropped<=8.8%", compared, "8.82% (882 of 10,002), 2 failed in the live policy", "at most 8.8%", false, false},
		{"dropped<=9%", compared, "8.82% (882 of 10,002), 2 failed in the live policy", "at most 9%", true, false},
		{"dropped<=881", compared, "882, 2 failed in the live policy", "at most 881", false, true},
		{"dropped=0", refused, "0", "at most 0", true, false},
		{"dropped<=50%", failing, "100% (9 of 9), 9 failed in the live policy", "at most 50%", false, false},
		{"dropped<=0%", never, "nothing compared", "at most 0%", false, false},

		// Shares are of what the counts stand for, and counts are counts.
		{"newly-denied<=90", sampled, "90 counted, about 720 in all, at most 1,728 with 95% confidence", "at most 90", false, false},
		{"newly-denied<=1728", sampled, "90 counted, about 720 in all, at most 1,728 with 95% confidence", "at most 1,728", true, false},
		{"newly-denied<=89", sampled, "90", "at most 89", false, true},
		{
			"newly-allowed<=1", sampled, "1 counted; how many there are is not known: as precise as 29 requests, 30 are needed", "at most 1", false, false,
		},
		{
			"newly-denied<=22%", sampled, "about 11% of the requests that the live policy allows (95% confidence: 3.4% to 26%; as precise as 48 requests)",
			"at most 22%", false, false,
		},
		{
			"newly-denied<=26%", sampled, "about 11% of the requests that the live policy allows (95% confidence: 3.4% to 26%; as precise as 48 requests)",
			"at most 26%", true, false,
		},
		{"newly-allowed<=99%", sampled, "not known: as precise as 29 requests, 30 are needed", "at most 99%", false, false},
		{"failed<=0.3%", sampled, "about 0.082% of the requests compared (95% confidence: 0.008% to 0.3%; as precise as 3,000 requests)", "at most 0.3%", true, false},
		{"dropped<=9%", sampled, "8.82% (882 of 10,002), 2 failed in the live policy", "at most 9%", true, false},

		// Of what more than 1 % was lost, no share is known.
		{"newly-denied<=100%", lossy, "not known: 1.01% was lost, not by chance (93 of 9,215)", "at most 100%", false, false},
		{"newly-allowed<=100%", lossy, "not known: 1.01% was lost, not by chance (93 of 9,215)", "at most 100%", false, false},
		{"response-changed<=100%", lossy, "not known: 1.01% was lost, not by chance (93 of 9,215)", "at most 100%", false, false},
		{"failed<=100%", lossy, "not known: 1.01% was lost, not by chance (93 of 9,215)", "at most 100%", false, false},
		{
			"newly-denied<=90", lossy, "90 counted; how many there are is not known: 1.01% was lost, not by chance (93 of 9,215)", "at most 90",
			false, false,
		},
		{"dropped<=9%", lossy, "8.82% (882 of 10,002), 2 failed in the live policy", "at most 9%", true, false},

		// What was accepted is left out of limits on who gets in.
		{"newly-denied<=10", accepted, "10, apart from 80 accepted requests", "at most 10", true, false},
		{"newly-denied<=9", accepted, "10, apart from 80 accepted requests", "at most 9", false, true},
		{"newly-denied<=0.2%", accepted, "0.161% (10 of 6,212 requests that the live policy allows), apart from 80 accepted requests", "at most 0.2%", true, false},
		{"failed=0", accepted, "0, apart from 8 accepted requests", "at most 0", true, false},
		{"unjudged=0", examining, "1 of 5 items, 1,234 still being examined", "at most 0", false, false},
		{"unjudged<=1", examining, "1 of 5 items", "at most 1", true, false},
		{"unjudged=0", unexamined, "5 of 5 items, 2 could not be examined: only more traffic shows more", "at most 0", false, false},
		{"unjudged<=1", compared, "1 of 5 items", "at most 1", true, false},
		{"unjudged=0", compared, "1 of 5 items", "at most 0", false, false},
		{"unjudged=0", withItems(&adminpb.Report{RequestCount: 1}, 0, 0, 0), "nothing differs", "at most 0", true, false},
		{"unjudged=0", &adminpb.Report{RequestCount: 1}, "not known: it cannot be found out in what the policies differ", "at most 0", false, true},
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

// TestDifferentCommitter: anyone who has set the policy cannot commit it, and where it is not known
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
	two := &adminpb.Report_ReportCounts{RequestCount: 2, PolicyAllows: &adminpb.Report_ResultCounts{RequestCount: 2}}
	r := report.WithCounts(two)
	r.NodeCount, r.ReportingNodeCount, r.AllPairs = 1, 1, two
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

// TestMissing: what changes who gets in, and more than 1 % that was not compared, has to be judged
// by some requirement, anyone who asks for it; a response that changed has not.
func TestMissing(t *testing.T) {
	counts := &adminpb.Report{RequestCount: 100, NewlyDeniedCount: 1, NewlyAllowedCount: 2, FailedCount: 3, ResponseChangedCount: 4, LiveFailedCount: 1}
	for _, c := range []struct {
		location, call, want string
		report               *adminpb.Report
	}{
		{"", "", "", counts},
		{"", "requests>=1", "newly-denied newly-allowed response-changed failed", counts},
		{"", "requests>=1,newly-denied<=1%", "newly-allowed response-changed failed", counts},
		{"newly-allowed<=2", "newly-denied<=1,failed<=100%", "response-changed", counts},
		{"newly-allowed<=2,response-changed<=100%", "newly-denied<=1,failed<=100%", "", counts},
		{"requests>=1", "", "newly-denied newly-allowed response-changed failed", counts},
		{"", "requests>=1,response-changed<=4", "", &adminpb.Report{RequestCount: 198, ResponseChangedCount: 4, LiveFailedCount: 1, DroppedCount: 1}},
		{"", "requests>=1", "dropped", &adminpb.Report{RequestCount: 197, LiveFailedCount: 1, DroppedCount: 1}},
		{"", "requests>=1,dropped<=50", "", &adminpb.Report{RequestCount: 100, LiveFailedCount: 5, DroppedCount: 9}},
	} {
		withItems(c.report, 0, 0, 0)
		location, err := report.Parse(c.location)
		if err != nil {
			t.Fatal(err)
		}
		call, err := report.Parse(c.call)
		if err != nil {
			t.Fatal(err)
		}
		report.SetResults(c.report, location, call, report.Committer{})
		if got := strings.Join(report.Missing(c.report), " "); got != c.want {
			t.Errorf("%q and %q: got %q, want %q", c.location, c.call, got, c.want)
		}
		if ready := report.Ready(c.report); ready != (len(report.Unmet(c.report)) == 0 && c.want == "") {
			t.Errorf("%q and %q: ready is %v", c.location, c.call, ready)
		}
	}
}

// TestAwaitsPeople: once there was as much traffic as is required and all of it was examined, people decide on counts over
// their limits and on unjudged items; before, and of shares, more traffic is awaited.
func TestAwaitsPeople(t *testing.T) {
	compared := func(pending int64) *adminpb.Report {
		r := withItems(&adminpb.Report{RequestCount: 100, NewlyDeniedCount: 1, UnchangedCount: 99, PendingRequestCount: pending}, 5, 4, 0)
		r.PolicyAllows = &adminpb.Report_ResultCounts{RequestCount: 100}
		return r
	}
	for _, c := range []struct {
		required string
		report   *adminpb.Report
		people   bool
	}{
		{"requests>=100,unjudged=0", compared(0), true},
		{"requests>=100,newly-denied=0", compared(0), true},
		{"requests>=100,newly-denied=0,unjudged=0", compared(0), true},
		{"requests>=100,unjudged=0", compared(1), false},
		{"requests>=101,unjudged=0", compared(0), false},
		{"requests>=101,newly-denied=0", compared(0), false},
		{"unjudged=0", compared(0), false},
		{"requests>=100,newly-denied<=0.1%", compared(0), false},
		{"requests>=100,taken-back=0", compared(0), false},
		{"requests>=100,newly-denied<=1", compared(0), false},
		{"duration>=0s,unjudged=0", withItems(&adminpb.Report{}, 5, 0, 0), false},
	} {
		required, err := report.Parse(c.required)
		if err != nil {
			t.Fatal(err)
		}
		report.SetResults(c.report, nil, required, report.Committer{})
		if got := report.AwaitsPeople(c.report); got != c.people {
			t.Errorf("%s with %d pending: got %v, want %v; %v", c.required, c.report.PendingRequestCount, got, c.people, c.report.Requirements)
		}
	}
}

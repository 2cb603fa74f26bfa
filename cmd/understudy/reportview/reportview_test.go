package reportview_test

import (
	"bytes"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/reportview"
	"understudy/cmd/understudy/terminal"
)

var update = flag.Bool("update", false, "write the files of testdata anew")

func TestMain(m *testing.M) {
	time.Local = time.UTC // what people read is in their zone
	os.Exit(m.Run())
}

// tightened is the report of a policy that denies 0.5 % of 5,000 requests: 25 paths of one
// pattern, by 3 callers.
func tightened() *adminpb.Report {
	at := timestamppb.New(time.Date(2026, 11, 22, 10, 32, 5, 0, time.UTC))
	return &adminpb.Report{
		Name:       "projects/default/locations/local/policies/shop/experiments/tighter/report",
		PolicyEtag: `W/"5ddc0e7b1a2f94c83e6d7a90b1c2d3e4"`, ExperimentEtag: `W/"0a93ab142f0ab7e4c8a050fb25187cdc"`,
		StartTime: at, UpdateTime: at, ActiveDuration: durationpb.New(12*time.Minute + 30*time.Second),
		RequestCount: 5000, UnchangedCount: 4975, NewlyDeniedCount: 25, CallerCount: 12, EndpointCount: 4,
		PolicyAllows: &adminpb.Report_ResultCounts{RequestCount: 4000, UnchangedCount: 3975, ResultChangedCount: 25},
		PolicyDenies: &adminpb.Report_ResultCounts{RequestCount: 1000, UnchangedCount: 1000},
		AllPairs:     &adminpb.Report_ReportCounts{RequestCount: 5000, UnchangedCount: 4975, NewlyDeniedCount: 25},
		Differences:  []*adminpb.Report_Difference{ordersDenied()},
		Labels: []*adminpb.Report_LabelSummary{{
			Label: "user", Kind: adminpb.Report_NEWLY_DENIED, Values: []*adminpb.Report_LabelValue{
				{Value: "alice", RequestCount: 12}, {Value: "bob", RequestCount: 8}, {Value: "carol", RequestCount: 5},
			},
		}},
		ReportingNodeCount: 2, NodeCount: 2, PublishInterval: durationpb.New(2 * time.Second),
		Items: []*adminpb.Report_Item{{
			ItemId: "5b7cf5d1e2a84c90aa01", Kind: adminpb.Report_Item_RULE, Side: adminpb.Report_Item_EXPERIMENT, State: adminpb.Report_Item_UNSEEN, ItemCount: 1,
			File: "health.rego", Line: 31, Rule: "data.envoy.authz.break_glass", ExperimentText: `break_glass if "sre" in claims.groups`,
		}, {
			ItemId: "0c4f1dd0aa9b3e7712f4", Kind: adminpb.Report_Item_CONDITION, Side: adminpb.Report_Item_EXPERIMENT, State: adminpb.Report_Item_SEEN, ItemCount: 1, SeenCount: 1,
			File: "health.rego", Line: 24, Rule: "data.envoy.authz.allow", ExperimentText: `"orders.read" in claims.scopes`, RequestCount: 100, FalseRequestCount: 25,
		}},
		ItemCount: 2, SeenItemCount: 1, UnjudgedItemCount: proto.Int64(1), Noise: &adminpb.Report_Noise{SampledCount: 50},
		Requirements: []*adminpb.Report_RequirementResult{
			{Requirement: "requests>=1000", Have: "5,000", Need: "at least 1,000", Met: true, Source: adminpb.Report_RequirementResult_LOCATION},
			{Requirement: "newly-denied=0", Have: "25", Need: "at most 0", Unreachable: true, Source: adminpb.Report_RequirementResult_CALL},
		},
	}
}

// ordersDenied is the one group of tightened.
func ordersDenied() *adminpb.Report_Difference {
	return &adminpb.Report_Difference{
		Kind: adminpb.Report_NEWLY_DENIED, Method: "GET", Path: "/health/orders/*", Reason: "the scope orders.read is missing", Rule: "routes",
		RequestCount: 25, EndpointRequestCount: 25, CallerCount: 3, ExperimentStatus: 403,
		Causes: []*adminpb.Report_Expression{{File: "health.rego", Line: 24, Text: `"orders.read" in claims.scopes`}},
		Examples: []*adminpb.Report_Example{{
			Method: "GET", Path: "/health/orders/1017", Principal: "spiffe://cluster.local/ns/shop/sa/web",
			Labels: map[string]string{"user": "alice"}, ExperimentStatus: 403, DecisionId: "219da814-8e0f-4e1b-ac11-274b1a12e14e",
		}},
	}
}

// varied is a report with all that a report can have.
func varied() *adminpb.Report {
	r := tightened()
	r.NewlyAllowedCount, r.ResponseChangedCount, r.FailedCount, r.LiveFailedCount = 3, 40, 2, 1
	r.RequestCount += 45
	r.PolicyAllows.ResponseChangedCount, r.PolicyAllows.FailedCount, r.PolicyAllows.RequestCount = 30, 2, 4032
	r.PolicyDenies.ResponseChangedCount, r.PolicyDenies.ResultChangedCount, r.PolicyDenies.RequestCount = 10, 3, 1013
	r.AllPairs = &adminpb.Report_ReportCounts{RequestCount: 19000, UnchangedCount: 18900, NewlyDeniedCount: 60, ResponseChangedCount: 40}
	r.DroppedCount, r.LostCount = 12, 12
	r.Drops = []*adminpb.Report_Drop{{Reason: "queue_full", RequestCount: 10}, {Reason: "unavailable", RequestCount: 2}}
	r.NodeCount, r.SilentNodes = 4, []string{"projects/default/locations/local/nodes/web-7c9", "projects/default/locations/local/nodes/web-7d1"}
	r.Noise.DifferedCount = 5
	r.Items, r.ItemCount, r.SeenItemCount, r.AcceptedItemCount = append(otherItems(), r.Items[1]), 1412, 38, 1
	r.UnjudgedItemCount = proto.Int64(1373)
	r.Differences = append([]*adminpb.Report_Difference{{
		Kind: adminpb.Report_RESPONSE_CHANGED, Method: "GET", Path: "/api/orders", Changes: []string{"header x-plan", "metadata tenant"},
		RequestCount: 30, EndpointRequestCount: 1200, CallerCount: 2, CauseUnknown: true,
	}, {
		Kind: adminpb.Report_RESPONSE_CHANGED, Method: "POST", Path: "/api/refunds/*/lines", Changes: []string{"status"},
		RequestCount: 10, EndpointRequestCount: 300, CallerCount: 4, PolicyStatus: 403, ExperimentStatus: 404, Noise: true,
	}}, r.Differences...)
	r.Differences = append(r.Differences, &adminpb.Report_Difference{
		Kind: adminpb.Report_NEWLY_ALLOWED, Method: "GET", Path: "/api/reports", RequestCount: 3, EndpointRequestCount: 9, CallerCount: 1, PolicyStatus: 403,
		Reason: "no rule allows it", Causes: []*adminpb.Report_Expression{{File: "shop.rego", Line: 19, Text: "http.method in data.permissions[role][route]"}},
	}, &adminpb.Report_Difference{
		Kind: adminpb.Report_FAILED, Method: "GET", Path: "/internal/prices", RequestCount: 2, EndpointRequestCount: 61, CallerCount: 1, Reason: "deadline exceeded",
	})
	r.Differences = append(r.Differences, &adminpb.Report_Difference{
		Kind: adminpb.Report_LIVE_FAILED, Method: "GET", Path: "/internal/prices", RequestCount: 1, CallerCount: 1, Reason: "deadline exceeded",
	})
	r.OtherDifferences = []*adminpb.Report_KindCount{{Kind: adminpb.Report_RESPONSE_CHANGED, RequestCount: 2}}
	return r
}

// otherItems are one of each way in which policies differ, and in which an item is not seen.
func otherItems() []*adminpb.Report_Item {
	return []*adminpb.Report_Item{
		tightened().Items[0],
		{
			ItemId: "a1", Kind: adminpb.Report_Item_DATA, Side: adminpb.Report_Item_EXPERIMENT, State: adminpb.Report_Item_UNSEEN, ItemCount: 1,
			DataPath: "data.roles.auditor", ExperimentText: "settings.write",
		},
		{
			ItemId: "a2", Kind: adminpb.Report_Item_DATA, Side: adminpb.Report_Item_POLICY, State: adminpb.Report_Item_UNSEEN, ItemCount: 1,
			DataPath: "data.roles.analyst", PolicyText: "payments.approve",
		},
		{
			ItemId: "a3", Kind: adminpb.Report_Item_DATA, Side: adminpb.Report_Item_BOTH, State: adminpb.Report_Item_UNSEEN, ItemCount: 1,
			DataPath: "data.limits.refund", PolicyText: "100", ExperimentText: "1000",
		},
		{
			ItemId: "a4", Kind: adminpb.Report_Item_LITERAL, Side: adminpb.Report_Item_BOTH, State: adminpb.Report_Item_UNSEEN, ItemCount: 1,
			File: "policy.rego", Line: 14, Rule: "data.envoy.authz.office_hours", PolicyText: "h < 22", ExperimentText: "h < 21",
		},
		{
			ItemId: "a5", Kind: adminpb.Report_Item_CONDITION, Side: adminpb.Report_Item_POLICY, State: adminpb.Report_Item_UNSEEN, ItemCount: 1, RequestCount: 12,
			File: "policy.rego", Line: 19, Rule: "data.envoy.authz.allow", PolicyText: "input.x == 1",
		},
		{
			ItemId: "", Kind: adminpb.Report_Item_DATA, Side: adminpb.Report_Item_BOTH, State: adminpb.Report_Item_UNSEEN, ItemCount: 500, SeenCount: 37, DataPath: "data.users",
		},
		{State: adminpb.Report_Item_UNSEEN, ItemCount: 904},
		{
			ItemId: "a6", Kind: adminpb.Report_Item_RULE, Side: adminpb.Report_Item_POLICY, State: adminpb.Report_Item_ACCEPTED, ItemCount: 1,
			File: "policy.rego", Line: 8, Rule: "data.envoy.authz.legacy", PolicyText: "default legacy := false",
		},
	}
}

// alike are so many requests that both policies allow.
func alike(n int64) *adminpb.Report_ReportCounts {
	return &adminpb.Report_ReportCounts{
		RequestCount: n, UnchangedCount: n, PolicyAllows: &adminpb.Report_ResultCounts{RequestCount: n, UnchangedCount: n},
	}
}

// lossy is a report of what a queue was too short for: 64 % of the requests.
func lossy() *adminpb.Report {
	r := tightened()
	r.DroppedCount, r.LostCount, r.Drops = 8889, 8889, []*adminpb.Report_Drop{{Reason: "queue_full", RequestCount: 8889}}
	r.Requirements = []*adminpb.Report_RequirementResult{{
		Requirement: "newly-denied<=1%", Have: "not known: 64% was lost, not by chance (8,889 of 13,889)", Need: "at most 1%",
	}}
	return r
}

// sampled is a report of one request of eight.
func sampled() *adminpb.Report {
	r := tightened()
	r.Estimate = &adminpb.Report_ReportCounts{
		RequestCount: 40000, UnchangedCount: 39600, NewlyDeniedCount: 400, PolicyAllows: &adminpb.Report_ResultCounts{RequestCount: 20000},
	}
	r.EstimatedShares = []*adminpb.Report_EstimatedShare{
		{Kind: adminpb.Report_NEWLY_DENIED, EffectiveRequestCount: 2200}, {Kind: adminpb.Report_FAILED, EffectiveRequestCount: 4400},
	}
	r.DroppedCount, r.Drops = 35000, []*adminpb.Report_Drop{{Reason: "sampled", RequestCount: 35000}}
	r.Requirements = nil
	return r
}

// golden holds what is printed against a file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got); -update writes it anew\n%s", name, diff)
	}
}

// TestGolden: what the forms look like.
func TestGolden(t *testing.T) {
	empty := &adminpb.Report{Name: tightened().Name, NodeCount: 1, ReportingNodeCount: 1}
	same := report.WithCounts(alike(300))
	same.Name, same.CallerCount, same.EndpointCount, same.ItemCount, same.SeenItemCount = tightened().Name, 6, 3, 4, 4
	same.UnjudgedItemCount = proto.Int64(0)
	for _, c := range []struct {
		file, format string
		report       *adminpb.Report
		options      reportview.Options
	}{
		{"screen.txt", "text", tightened(), reportview.Options{Width: 80, Height: 24}},
		{"varied_80.txt", "text", varied(), reportview.Options{Width: 80}},
		{"varied_screen.txt", "text", varied(), reportview.Options{Width: 80, Height: 24}},
		{"varied_40.txt", "text", varied(), reportview.Options{Width: 40}},
		{"varied_120.txt", "text", varied(), reportview.Options{Width: 120, Everything: true}},
		{"varied_wide.txt", "text", varied(), reportview.Options{}},
		{"empty.txt", "text", empty, reportview.Options{Width: 80, Height: 24}},
		{"lossy.txt", "text", lossy(), reportview.Options{Width: 80, Height: 30}},
		{"sampled.txt", "text", sampled(), reportview.Options{Width: 80, Height: 30}},
		{"same.txt", "text", same, reportview.Options{Width: 80, Height: 24, Name: "replay of access.log"}},
		{"varied.md", "markdown", varied(), reportview.Options{}},
		{"varied.xml", "junit", varied(), reportview.Options{}},
		{"empty.xml", "junit", empty, reportview.Options{}},
	} {
		t.Run(c.file, func(t *testing.T) {
			var out bytes.Buffer
			if err := reportview.Write(&out, c.format, c.report, c.options); err != nil {
				t.Fatal(err)
			}
			golden(t, c.file, out.Bytes())
		})
	}
}

// TestOneScreen: what a report says of a tightened policy is seen without scrolling, on
// the smallest usual terminal, and all of it is there.
func TestOneScreen(t *testing.T) {
	lines := reportview.Lines(tightened(), reportview.Options{Width: 80, Height: 24})
	if len(lines) > 23 {
		t.Errorf("got %d lines, want at most 23", len(lines))
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"newly denied", "GET /health/orders/*", "25 of 25", "      3  ", "allowed → 403", `health.rego:24  "orders.read" in claims.scopes`, "25 of 4,000 requests", "(0.6%)", "4 endpoints",
		"the scope orders.read is missing", "`break_glass if …` (health.rego:31), added: no request needed it", "alice 12, bob 8, carol 5", "newly-denied=0", "25, needs at most 0",
		"25 of 25 requests of\nGET /health/orders/* would be newly denied",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant it to have %q", text, want)
		}
	}
}

// TestFits: no terminal has to wrap or scroll, whatever is in the report.
func TestFits(t *testing.T) {
	large := varied()
	for i := range 200 {
		d := proto.CloneOf(ordersDenied())
		d.Path, d.RequestCount = "/"+strings.Repeat("very-long-", i%20)+"注文/*", int64(i)
		d.Reason = strings.Repeat("because ", i%30)
		large.Differences = append(large.Differences, d)
	}
	for range 20 {
		large.Requirements = append(large.Requirements, proto.CloneOf(large.Requirements[1]))
	}
	for _, r := range []*adminpb.Report{tightened(), varied(), large, {}} {
		for _, width := range []int{20, 40, 67, 68, 80, 81, 132} {
			for _, height := range []int{5, 24, 50} {
				lines := reportview.Lines(r, reportview.Options{Width: width, Height: height})
				if len(lines) >= height {
					t.Errorf("%dx%d: got %d lines", width, height, len(lines))
				}
				for _, l := range lines {
					if n := terminal.Columns(l); n > width {
						t.Errorf("%dx%d: got %d columns in %q", width, height, n, l)
					}
				}
			}
		}
	}
	text := strings.Join(reportview.Lines(large, reportview.Options{Width: 80}), "\n")
	if want := "and 196 more"; !strings.Contains(text, want) {
		t.Errorf("got\n%s\nwant %q", text, want)
	}
}

// TestColoursSayNothingAlone: without the colours the text is the same.
func TestColoursSayNothingAlone(t *testing.T) {
	o := reportview.Options{Width: 80, Height: 24}
	plain := reportview.Lines(varied(), o)
	o.Palette = true
	coloured := strings.Join(reportview.Lines(varied(), o), "\n")
	for _, code := range []string{"0", "1", "2", "31", "32", "33"} {
		coloured = strings.ReplaceAll(coloured, "\x1b["+code+"m", "")
	}
	if diff := cmp.Diff(strings.Join(plain, "\n"), coloured); diff != "" {
		t.Error(diff)
	}
}

// TestHostileText: what others wrote neither controls a terminal nor is Markdown or HTML.
func TestHostileText(t *testing.T) {
	r := tightened()
	bad := "\x1b[2J\u202e`|<script>alert(1)</script>\n# [x](http://evil) @all"
	d := r.Differences[0]
	d.Method, d.Path, d.Reason, d.Rule = bad, "/"+bad, bad, bad
	d.Causes[0].File, d.Causes[0].Text, d.Examples[0].Path, d.Examples[0].Principal = bad, bad, bad, bad
	r.Labels[0].Label, r.Labels[0].Values[0].Value = bad, bad
	r.SilentNodes, r.NodeCount = []string{bad}, 3
	for _, item := range append(otherItems(), r.Items[1]) {
		item.File, item.Rule, item.PolicyText, item.ExperimentText, item.DataPath = bad, bad, bad, bad, bad
		r.Items = append(r.Items, item)
	}
	r.ItemCount, r.SeenItemCount, r.Requirements[0].Met = 99, 3, false
	r.Drops, r.DroppedCount = []*adminpb.Report_Drop{{Reason: bad, RequestCount: 1}}, 1
	r.Requirements[0].Requirement, r.Requirements[0].Have = bad, bad
	for _, format := range reportview.Formats {
		var out bytes.Buffer
		if err := reportview.Write(&out, format, r, reportview.Options{}); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(out.String(), "\x1b\u202e") && format != "json" {
			t.Errorf("%s: got a control character:\n%q", format, out.String())
		}
		if format == "markdown" {
			for _, unwanted := range []string{"<script", "](http", "@all", "\n# "} {
				if strings.Contains(out.String(), unwanted) {
					t.Errorf("markdown: got %q in\n%s", unwanted, out.String())
				}
			}
		}
		if format == "junit" {
			if err := xml.Unmarshal(out.Bytes(), new(struct{})); err != nil {
				t.Errorf("junit: %v", err)
			}
		}
	}
}

// TestJSON: it is the API's own, and is read again.
func TestJSON(t *testing.T) {
	var out bytes.Buffer
	if err := reportview.JSON(&out, varied()); err != nil {
		t.Fatal(err)
	}
	got := &adminpb.Report{}
	if err := protojson.Unmarshal(out.Bytes(), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(varied(), got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// differing is a report of 200 requests that the live policy allows and 100 that it denies.
func differing(newlyDenied, newlyAllowed, failed, changed int64, requirements ...*adminpb.Report_RequirementResult) *adminpb.Report {
	return &adminpb.Report{
		RequestCount: 300, UnchangedCount: 300 - newlyDenied - newlyAllowed - failed - changed, NewlyDeniedCount: newlyDenied,
		NewlyAllowedCount: newlyAllowed, FailedCount: failed, ResponseChangedCount: changed,
		PolicyAllows: &adminpb.Report_ResultCounts{RequestCount: 200}, PolicyDenies: &adminpb.Report_ResultCounts{RequestCount: 100},
		Requirements: requirements,
	}
}

// TestVerdicts: one sentence for each state of a report.
func TestVerdicts(t *testing.T) {
	requirement := func(met, unreachable bool) *adminpb.Report_RequirementResult {
		return &adminpb.Report_RequirementResult{Met: met, Unreachable: unreachable}
	}
	judgedBy := func(terms ...string) (met []*adminpb.Report_RequirementResult) {
		for _, term := range terms {
			met = append(met, &adminpb.Report_RequirementResult{Requirement: term, Met: true})
		}
		return met
	}
	items := func(all, seen, accepted, pending, unexamined int64, requirements ...*adminpb.Report_RequirementResult) *adminpb.Report {
		return &adminpb.Report{
			RequestCount: 10, UnchangedCount: 10, ItemCount: all, SeenItemCount: seen, AcceptedItemCount: accepted,
			PendingRequestCount: pending, UnexaminedRequestCount: unexamined, Requirements: requirements,
		}
	}
	refused := report.WithCounts(&adminpb.Report_ReportCounts{
		RequestCount: 10000, UnchangedCount: 10000, PolicyDenies: &adminpb.Report_ResultCounts{RequestCount: 10000},
	})
	// Seven requests ran out of time in the live policy: the experiment has nothing to do with it.
	noisy := report.WithCounts(&adminpb.Report_ReportCounts{
		RequestCount: 29788, UnchangedCount: 29788, LiveFailedCount: 7, CallerCount: 6, EndpointCount: 1,
		PolicyAllows: &adminpb.Report_ResultCounts{RequestCount: 29000}, PolicyDenies: &adminpb.Report_ResultCounts{RequestCount: 788},
	})
	overloaded := report.WithCounts(alike(40))
	overloaded.DroppedCount = 60
	judgedOverload := proto.CloneOf(overloaded)
	judgedOverload.Requirements, judgedOverload.RequirementsMet = judgedBy("requests>=1"), true
	for _, c := range []struct {
		report *adminpb.Report
		want   string
	}{
		{&adminpb.Report{}, "Not known yet: no request has been compared."},
		{&adminpb.Report{Requirements: []*adminpb.Report_RequirementResult{requirement(false, false)}},
			"Not yet: the requirement is not met; no request has been compared."},
		{&adminpb.Report{LiveFailedCount: 7}, "Not known yet: no request has been compared; 7 of 7 requests (100%) were not compared."},
		{&adminpb.Report{RequestCount: 1, UnchangedCount: 1}, "No difference in 1 request."},
		{report.WithCounts(alike(40)), "No difference in 40 requests by unknown callers."},
		{refused, "No difference in 10,000 requests, which both policies deny."},
		{noisy, "No difference in 29,788 requests, 29,000 of them allowed, by 6 callers at 1 endpoint."},
		{overloaded, "Look first: no difference in 40 requests by unknown callers; 60 of 100 requests (60%) were not compared."},
		{judgedOverload, "Look first: the requirement is met, but no requirement is about dropped; no difference in 40 requests " +
			"by unknown callers; 60 of 100 requests (60%) were not compared."},
		{items(3, 3, 0, 1, 0), "No difference in 10 requests."},
		{items(2, 1, 0, 0, 0), "Look first: no difference in 10 requests; 1 of 2 items was not seen."},
		{items(2, 0, 0, 2, 1), "Look first: no difference in 10 requests; 2 of 2 items were not seen so far; 2 requests are still being examined."},
		{items(2, 0, 0, 0, 1), "Look first: no difference in 10 requests; 2 of 2 items were not seen; 1 request could not be examined."},
		{items(5, 2, 1, 0, 0), "Look first: no difference in 10 requests; 3 of 5 items were not seen, 1 of them accepted."},
		{items(5, 2, 3, 0, 0), "No difference in 10 requests; 3 of 5 items were not seen, but accepted."},
		{items(3, 2, 0, 0, 0, judgedBy("requests>=1", "newly-allowed=0")...),
			"Look first: both requirements are met, but no requirement is about unjudged; no difference in 10 requests; 1 of 3 items was not seen."},
		{items(3, 2, 0, 0, 0, judgedBy("requests>=1", "unjudged<=1")...), "Look first: both requirements are met, but 1 item is unjudged; no difference in 10 requests; 1 of 3 items was not seen."},
		{items(3, 3, 0, 0, 0, judgedBy("all-nodes", "duration>=1h")...),
			"Look first: both requirements are met, but no requirement is about requests; no difference in 10 requests."},
		{items(3, 2, 1, 0, 0, judgedBy("newly-allowed=0")...), "Ready: the requirement is met; no difference in 10 requests; 1 of 3 items was not seen, but accepted; " +
			"no request that the live policy denies was compared."},
		{acceptedBy(items(3, 2, 1, 0, 0, judgedBy("newly-allowed=0")...)), "Ready: by acceptance of 4 newly denied requests (token:ann: a scanner), 1 unseen item (token:bob: " +
			"only at night) and 1 other acceptance, the requirement is met; no difference in 10 requests; 1 of 3 items was not seen, but accepted; " +
			"no request that the live policy denies was compared."},
		{differing(25, 0, 0, 0), "Look first: 25 of 200 requests that the live policy allows would be newly denied (12%)."},
		{differing(19, 5, 0, 6, requirement(true, false), requirement(false, false)),
			"Not yet: 1 of 2 requirements is not met; 19 of 200 requests that the live policy allows would be newly denied (9.5%), " +
				"5 of 100 that the live policy denies newly allowed (5%) and 6 of 276 with the same result answered differently (2.2%)."},
		{&adminpb.Report{Requirements: []*adminpb.Report_RequirementResult{requirement(false, false), requirement(false, false)}},
			"Not yet: neither of the requirements is met; no request has been compared."},
		{differing(0, 0, 1, 0, requirement(false, true), requirement(false, false)),
			"Do not commit: 1 of 2 requirements can no longer be met; 1 of 300 requests compared would fail (0.3%)."},
		{&adminpb.Report{RequestCount: 300, UnchangedCount: 300, Requirements: judgedBy("requests>=1", "newly-denied=0")},
			"Ready: both requirements are met; no difference in 300 requests."},
		{differing(0, 22, 0, 0, judgedBy("requests>=1", "newly-denied=0")...),
			"Look first: both requirements are met, but no requirement is about newly-allowed; " +
				"22 of 100 requests that the live policy denies would be newly allowed (22%)."},
		{differing(3, 0, 3, 0, judgedBy("requests>=1")...),
			"Look first: the requirement is met, but no requirement is about newly-denied or failed; " +
				"3 of 200 requests that the live policy allows would be newly denied (1.5%) and 3 of 300 compared would fail (1%)."},
		{differing(0, 22, 0, 0, judgedBy("newly-denied=0", "newly-allowed<=30%")...),
			"Ready: both requirements are met; 22 of 100 requests that the live policy denies would be newly allowed (22%)."},
	} {
		c.report.UnjudgedItemCount = proto.Int64(c.report.ItemCount - c.report.SeenItemCount - c.report.AcceptedItemCount)
		got := verdict.Of(c.report)
		if got.String() != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		if (got.Tone == verdict.Good) != (got.Word == "Ready") {
			t.Errorf("%s: the tone is %d; what is ready is good, and nothing else", got, got.Tone)
		}
	}
}

// TestChangeNotKnown: where it cannot be found out in what the policies differ, nothing is ready, and that
// is said.
func TestChangeNotKnown(t *testing.T) {
	r := differing(0, 0, 0, 0)
	if got, want := verdict.Of(r).String(), "Look first: no difference in 300 requests, 200 of them allowed, by unknown callers; it is not known in what the policies differ."; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	r.Requirements, r.RequirementsMet = []*adminpb.Report_RequirementResult{{Requirement: "newly-denied=0", Met: true}}, true
	if v := verdict.Of(r); v.Tone == verdict.Good || report.Ready(r) || !strings.Contains(v.Why, "no requirement is about unjudged") {
		t.Errorf("the verdict is %s", v)
	}
}

// acceptedBy has a report be judged by what people have accepted: one acceptance is void.
func acceptedBy(r *adminpb.Report) *adminpb.Report {
	inForce := adminpb.Acceptance_IN_FORCE
	r.Acceptances = []*adminpb.Acceptance{
		{Creator: "token:eve", Reason: "void", State: adminpb.Acceptance_VOID, RequestCount: 9},
		{
			Creator: "token:ann", Reason: "a scanner", State: inForce, RequestCount: 4,
			Target: &adminpb.Acceptance_GroupId{GroupId: "g"}, Difference: &adminpb.Report_Difference{Kind: adminpb.Report_NEWLY_DENIED},
		},
		{
			Creator: "token:bob", Reason: "only at night", State: inForce,
			Target: &adminpb.Acceptance_ItemId{ItemId: "i"}, Item: &adminpb.Report_Item{ItemCount: 1},
		},
		{Creator: "token:carl", Reason: "too", State: inForce, RequestCount: 1, Target: &adminpb.Acceptance_GroupId{GroupId: "h"}},
	}
	return r
}

package report_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
)

const reportName = "projects/p/locations/l/policies/web/experiments/e1/report"

// at is a time of the tests, in seconds since their beginning.
func at(second int64) *timestamppb.Timestamp {
	return &timestamppb.Timestamp{Seconds: 1_800_000_000 + second}
}

// evidence is that of an experiment that was compared with two live policies, and earlier
// ones.
func evidence() *evidencepb.Evidence {
	denied, changed := int32(adminpb.Report_NEWLY_DENIED), int32(adminpb.Report_RESPONSE_CHANGED)
	return &evidencepb.Evidence{
		ExperimentEtag: "e", PublishTime: at(100), PublishInterval: durationpb.New(4 * time.Second),
		Pairs: []*evidencepb.Pair{{
			PolicyEtag: "p2", Counts: &evidencepb.Counts{BothAllow: 90, NewlyDenied: 7, AllowedChanged: 2, AllowedFailed: 1, LiveFailed: 1, Dropped: 5},
			Drops: map[string]int64{"queue_full": 1, "unavailable": 4}, FirstTime: at(50), LastTime: at(99),
			Active:             []*evidencepb.Span{{Begin: 50_000, End: 70_000}, {Begin: 60_000, End: 80_000}, {Begin: 90_000, End: 100_000}},
			AllowedCallers:     &evidencepb.Callers{Set: []byte{0, 1, 2, 3, 4, 5, 6, 7, 8}, Requests: 97}, // two hashes of four bytes
			NewlyDeniedCallers: &evidencepb.Callers{Set: []byte{0, 1, 2, 3, 4}, Requests: 6},
			Hours:              []byte{1, 0, 2},
			Endpoints:          []*evidencepb.Endpoint{{Method: "GET", Pattern: "/a/*", Count: 40, Allowed: 40}, {Method: "GET", Pattern: "/b", Count: 1}},
			Groups: []*evidencepb.Group{
				{Kind: changed, Method: "GET", Pattern: "/b", Changes: []string{"header x-role"}, Count: 2},
				{
					Kind: denied, Method: "GET", Pattern: "/a/*", Rule: "main", Reason: "no role", ExperimentStatus: 403, Count: 6,
					Callers:   []byte{0, 1, 2, 3, 4}, // one hash of four bytes
					FirstTime: at(51), LastTime: at(90),
					Examples: []*evidencepb.Example{
						{Method: "GET", Path: "/a/1?token=secret", Principal: "spiffe://a", Labels: map[string]string{"user": "ann"}, DecisionId: "d1"},
						{Path: "/a/2"}, {Path: "/a/3"}, {Path: "/a/4"},
					},
					Causes: []*evidencepb.Cause{{File: "authz.rego", Line: 7, Text: "input.x"}},
				},
				{Kind: denied, Method: "PUT", Pattern: "/c", Count: 1},
			},
			Other: map[int32]int64{int32(adminpb.Report_FAILED): 1, denied: 0},
			Labels: []*evidencepb.Label{{Label: "user", Kind: denied, Total: 9, Values: []*evidencepb.Label_Value{
				{Value: "bob", Count: 2}, {Value: "ann", Count: 5, Error: 1},
			}}},
			Noise: &evidencepb.Noise{Sampled: 10, Differed: 1, Kinds: map[int32]int64{changed: 1}},
		}, {
			PolicyEtag: "p1", Counts: &evidencepb.Counts{BothAllow: 1000, NewlyAllowed: 1}, Active: []*evidencepb.Span{{Begin: 20_000, End: 55_000}},
			AllowedCallers:      &evidencepb.Callers{Set: []byte{0, 5, 6, 7, 8}, Requests: 1000},
			NewlyAllowedCallers: &evidencepb.Callers{Set: []byte{0, 9, 9, 9, 9}, Requests: 1},
			Endpoints:           []*evidencepb.Endpoint{{Method: "GET", Pattern: "/a/*", Allowed: 1}, {Method: "PUT", Pattern: "/a/*", Count: 1, Allowed: 1}},
		}},
		Earlier: &evidencepb.Pair{Counts: &evidencepb.Counts{BothAllow: 5}, Active: []*evidencepb.Span{{Begin: 1_000, End: 2_000}}},
		Points:  []*evidencepb.Point{{Start: 120, Counts: &evidencepb.Counts{BothAllow: 3}}, {Start: 60, Counts: &evidencepb.Counts{AllowedFailed: 1}}},
	}
}

// build makes a report of evidence.
func build(e *evidencepb.Evidence) *adminpb.Report {
	return report.Build(report.Input{
		Name: reportName, PolicyEtag: "p2", ExperimentEtag: "e", Evidence: e,
		Nodes: []report.Node{{Name: "n1", Reports: true}, {Name: "n2"}},
	})
}

func TestBuild(t *testing.T) {
	want := &adminpb.Report{
		Name: reportName, PolicyEtag: "p2", ExperimentEtag: "e", StartTime: at(50), UpdateTime: at(100), RequirementsMet: true,
		RequestCount: 100, UnchangedCount: 90, NewlyDeniedCount: 7, ResponseChangedCount: 2, FailedCount: 1, LiveFailedCount: 1, DroppedCount: 5,
		LostCount: 5, CallerCount: 2, EndpointCount: 1,
		PolicyAllows:   &adminpb.Report_ResultCounts{RequestCount: 100, UnchangedCount: 90, ResultChangedCount: 7, ResponseChangedCount: 2, FailedCount: 1},
		ActiveDuration: durationpb.New(40 * time.Second), AllPairsActiveDuration: durationpb.New(71 * time.Second),
		AllPairs: &adminpb.Report_ReportCounts{
			RequestCount: 1106, UnchangedCount: 1095, NewlyDeniedCount: 7, NewlyAllowedCount: 1, ResponseChangedCount: 2, FailedCount: 1,
			LiveFailedCount: 1, DroppedCount: 5, LostCount: 5, CallerCount: 3, EndpointCount: 2,
			PolicyAllows: &adminpb.Report_ResultCounts{
				RequestCount: 1105, UnchangedCount: 1095, ResultChangedCount: 7, ResponseChangedCount: 2, FailedCount: 1,
			},
			PolicyDenies: &adminpb.Report_ResultCounts{RequestCount: 1, ResultChangedCount: 1},
		},
		NodeCount: 2, ReportingNodeCount: 1, SilentNodes: []string{"n2"}, PublishInterval: durationpb.New(4 * time.Second),
		Drops: []*adminpb.Report_Drop{{Reason: "unavailable", RequestCount: 4}, {Reason: "queue_full", RequestCount: 1}},
		Differences: []*adminpb.Report_Difference{{
			Kind: adminpb.Report_NEWLY_DENIED, Method: "GET", Path: "/a/*", Principal: "spiffe://a", Rule: "main", Reason: "no role",
			ExperimentStatus: 403, RequestCount: 6, EndpointRequestCount: 40, EndpointAllowedCount: 40, CallerCount: 1, FirstTime: at(51), LastTime: at(90),
			Examples: []*adminpb.Report_Example{
				{Method: "GET", Path: "/a/1", Principal: "spiffe://a", Labels: map[string]string{"user": "ann"}, DecisionId: "d1"},
				{Path: "/a/2"}, {Path: "/a/3"},
			},
			Causes:  []*adminpb.Report_Expression{{File: "authz.rego", Line: 7, Text: "input.x"}},
			GroupId: "87f185ccf73fa166378e",
		}, {
			Kind: adminpb.Report_NEWLY_DENIED, Method: "PUT", Path: "/c", RequestCount: 1, EndpointRequestCount: 1, GroupId: "ff5495a2971e5b18a2f0", CauseUnknown: true,
		}, {
			Kind: adminpb.Report_RESPONSE_CHANGED, Method: "GET", Path: "/b", Changes: []string{"header x-role"}, RequestCount: 2,
			EndpointRequestCount: 2, Noise: true, GroupId: "4835fd232bfed68d7eb7", CauseUnknown: true,
		}},
		OtherDifferences: []*adminpb.Report_KindCount{{Kind: adminpb.Report_FAILED, RequestCount: 1}},
		Points: []*adminpb.Report_Point{
			{StartTime: &timestamppb.Timestamp{Seconds: 60}, Counts: &adminpb.Report_ReportCounts{
				RequestCount: 1, FailedCount: 1, PolicyAllows: &adminpb.Report_ResultCounts{RequestCount: 1, FailedCount: 1},
			}},
			{StartTime: &timestamppb.Timestamp{Seconds: 120}, Counts: &adminpb.Report_ReportCounts{
				RequestCount: 3, UnchangedCount: 3, PolicyAllows: &adminpb.Report_ResultCounts{RequestCount: 3, UnchangedCount: 3},
			}},
		},
		Labels: []*adminpb.Report_LabelSummary{{Label: "user", Kind: adminpb.Report_NEWLY_DENIED, OtherRequestCount: 2, Values: []*adminpb.Report_LabelValue{
			{Value: "ann", RequestCount: 5, ErrorCount: 1}, {Value: "bob", RequestCount: 2},
		}}},
		Noise: &adminpb.Report_Noise{SampledCount: 10, DifferedCount: 1}, WeekHours: []int32{0, 17},
	}
	bounds := protocmp.IgnoreFields(want, "all_pairs_bounds")
	if diff := cmp.Diff(want, build(evidence()), protocmp.Transform(), bounds); diff != "" {
		t.Errorf("the report differs (- want, + got):\n%s", diff)
	}
}

// TestNeverStarted is the report of an experiment of which there is no evidence: zeros. So is
// that of one whose content is another now.
func TestNeverStarted(t *testing.T) {
	foreign := evidence()
	foreign.ExperimentEtag = "other"
	want := &adminpb.Report{
		Name: reportName, PolicyEtag: "p2", ExperimentEtag: "e", RequirementsMet: true, ActiveDuration: &durationpb.Duration{},
		AllPairsActiveDuration: &durationpb.Duration{}, AllPairs: &adminpb.Report_ReportCounts{},
		NodeCount: 2, ReportingNodeCount: 1, SilentNodes: []string{"n2"},
	}
	for name, e := range map[string]*evidencepb.Evidence{"none": nil, "another content": foreign} {
		if diff := cmp.Diff(want, build(e), protocmp.Transform()); diff != "" {
			t.Errorf("%s: the report differs (- want, + got):\n%s", name, diff)
		}
	}
}

// TestNewPair is the report after the live policy changed: nothing of this pair, all of the
// others.
func TestNewPair(t *testing.T) {
	got := report.Build(report.Input{PolicyEtag: "p3", ExperimentEtag: "e", Evidence: evidence()})
	if got.RequestCount != 0 || len(got.Differences) != 0 || got.StartTime != nil || got.ActiveDuration.AsDuration() != 0 {
		t.Errorf("a pair that was never compared has %v", got)
	}
	if got.AllPairs.RequestCount != 1106 {
		t.Errorf("all pairs have %d requests, want 1106", got.AllPairs.RequestCount)
	}
}

// TestEstimate: where chance chose what was compared, the estimate says what it stands for; a pair
// without weights stands for itself, and what chance left out is not lost.
func TestEstimate(t *testing.T) {
	e := evidence()
	p := e.Pairs[0]
	p.Counts.Dropped, p.Drops = 905, map[string]int64{"sampled": 900, "queue_full": 5}
	p.Weights = &evidencepb.Counts{BothAllow: 900, NewlyDenied: 56, AllowedChanged: 2, AllowedFailed: 8, LiveFailed: 1, Dropped: 940}
	got := build(e)
	want := &adminpb.Report_ReportCounts{
		RequestCount: 966, UnchangedCount: 900, NewlyDeniedCount: 56, ResponseChangedCount: 2, FailedCount: 8, LiveFailedCount: 1,
		DroppedCount: 40, LostCount: 40,
		PolicyAllows: &adminpb.Report_ResultCounts{RequestCount: 966, UnchangedCount: 900, ResultChangedCount: 56, ResponseChangedCount: 2, FailedCount: 8},
	}
	if diff := cmp.Diff(want, got.Estimate, protocmp.Transform()); diff != "" {
		t.Errorf("the estimate differs (- want, + got):\n%s", diff)
	}
	if all := got.AllPairsEstimate; all.GetRequestCount() != 966+1006 || all.GetPolicyDenies().GetResultChangedCount() != 1 {
		t.Errorf("the estimate of all pairs is %v, want 966 requests and the 1,006 of the other pairs", all)
	}
	if got.EstimatedShares[0].GetEffectiveRequestCount() != 0 {
		t.Errorf("without squares the share is as precise as %v requests, want none", got.EstimatedShares[0].GetEffectiveRequestCount())
	}
	if got.LostCount != 5 || got.DroppedCount != 905 || !report.Lossy(got) {
		t.Errorf("%d of %d were lost, and shares are known is %v; want 5 of 905, which stand for 40 of 1,007", got.LostCount, got.DroppedCount, !report.Lossy(got))
	}
	p.Drops = map[string]int64{"sampled": 905}
	p.Weights.Dropped = 905
	if got := build(e); got.LostCount != 0 || report.Lossy(got) || !report.Incomplete(got) {
		t.Errorf("%d were lost of what chance left out", got.LostCount)
	}
}

// TestASampledShareIsJudgedByItsInterval: a few heavy requests may be what the truth is hidden in.
func TestASampledShareIsJudgedByItsInterval(t *testing.T) {
	e := evidence()
	p := e.Pairs[0]
	p.Counts = &evidencepb.Counts{BothAllow: 2190, NewlyDenied: 6}
	p.Weights = &evidencepb.Counts{BothAllow: 994, NewlyDenied: 6}
	p.Squares = &evidencepb.Counts{BothAllow: 20826, NewlyDenied: 7}
	got := build(e)
	denied := got.EstimatedShares[0]
	if denied.Kind != adminpb.Report_NEWLY_DENIED || denied.Ratio != 0.006 || denied.LowerRatio != 0 || denied.UpperRatio < 0.1 || denied.UpperRatio > 0.12 ||
		math.Abs(denied.EffectiveRequestCount-1e6/20833) > 1e-9 {
		t.Errorf("got %v, want 0.6%%, of 48 requests at most about 11%%", denied)
	}
	if got.EstimatedShares[1].EffectiveRequestCount != 0 {
		t.Errorf("got %v, want what is of no requests to be as precise as of none", got.EstimatedShares[1])
	}
	if all := got.AllPairsEstimatedShares[0].EffectiveRequestCount; all <= denied.EffectiveRequestCount {
		t.Errorf("of all pairs the share is as precise as %v requests, want more than %v", all, denied.EffectiveRequestCount)
	}
	result := report.Judge(&adminpb.CommitRequirements{MaxNewlyDeniedRatio: proto.Float64(0.03)}, adminpb.Report_RequirementResult_CALL, got, report.Committer{})[0]
	if want := "about 0.6% of the requests that the live policy allows (95% confidence: 0% to 12%; as precise as 48 requests)"; result.Met || result.Unreachable || result.Have != want {
		t.Errorf("the requirement is %v, want it unmet, with %q", result, want)
	}
	all := &adminpb.CommitRequirements{MaxNewlyDeniedRatio: proto.Float64(0.03), Scope: adminpb.CommitRequirements_ALL_PAIRS}
	if result := report.Judge(all, adminpb.Report_RequirementResult_CALL, got, report.Committer{})[0]; strings.Contains(result.Have, "48 requests") {
		t.Errorf("over all pairs it has %q, want it as precise as all pairs", result.Have)
	}
	if got := build(evidence()); got.EstimatedShares != nil || got.AllPairsEstimatedShares != nil {
		t.Errorf("shares of what was counted are estimates: %v", got.EstimatedShares)
	}
}

// TestLiveFailuresAreOneGroup: a busy machine fails at any path, which says nothing of the
// experiment.
func TestLiveFailuresAreOneGroup(t *testing.T) {
	failure := int32(adminpb.Report_LIVE_FAILED)
	e := evidence()
	p := e.Pairs[0]
	p.Counts.LiveFailed = 7
	p.Groups = append(p.Groups,
		&evidencepb.Group{Kind: failure, Method: "GET", Pattern: "/a/*", Reason: "late", Count: 1, Callers: []byte{0, 1, 1, 1, 1}, LastTime: at(98)},
		&evidencepb.Group{
			Kind: failure, Method: "GET", Pattern: "/b", Reason: "the deadline was over", Count: 4, Callers: []byte{0, 2, 2, 2, 2}, FirstTime: at(60),
			LastTime: at(90), Examples: []*evidencepb.Example{{Path: "/b", Principal: "spiffe://a"}},
		})
	p.Other[failure] = 2
	r := build(e)
	want := &adminpb.Report_Difference{
		Kind: adminpb.Report_LIVE_FAILED, Method: "GET", Path: "*", Reason: "the deadline was over", RequestCount: 7, CallerCount: 2,
		FirstTime: at(60), LastTime: at(98), Examples: []*adminpb.Report_Example{{Path: "/b", Principal: "spiffe://a"}},
	}
	if diff := cmp.Diff(want, r.Differences[len(r.Differences)-1], protocmp.Transform()); diff != "" {
		t.Errorf("the group differs (- want, + got):\n%s", diff)
	}
	if len(r.Differences) != 4 || len(r.OtherDifferences) != 1 {
		t.Errorf("got %d differences and %v, want one more than before and others that failed", len(r.Differences), r.OtherDifferences)
	}
}

// many is evidence with so many groups of one request each, of two kinds.
func many(groups int) *evidencepb.Evidence {
	p := &evidencepb.Pair{PolicyEtag: "p2", Counts: &evidencepb.Counts{}}
	for i := range groups {
		kind := adminpb.Report_RESPONSE_CHANGED
		if i%2 == 1 {
			kind = adminpb.Report_NEWLY_DENIED
		}
		p.Groups = append(p.Groups, &evidencepb.Group{
			Kind: int32(kind), Method: "GET", Pattern: fmt.Sprintf("/%s/%d", strings.Repeat("p", 80), i), Count: int64(i + 1),
			Examples: []*evidencepb.Example{{Path: fmt.Sprint("/", i)}, {Path: strings.Repeat("/x", 100)}, {Path: strings.Repeat("/y", 100)}},
		})
	}
	return &evidencepb.Evidence{ExperimentEtag: "e", Pairs: []*evidencepb.Pair{p}}
}

// sum returns the requests of all differences, those that are only counted included.
func sum(r *adminpb.Report) int64 {
	var n int64
	for _, d := range r.Differences {
		n += d.RequestCount
	}
	for _, k := range r.OtherDifferences {
		n += k.RequestCount
	}
	return n
}

// TestManyGroups keeps the gravest and counts the rest: nothing is lost.
func TestManyGroups(t *testing.T) {
	r := build(many(300))
	if len(r.Differences) != 200 || r.Differences[0].Kind != adminpb.Report_NEWLY_DENIED || r.Differences[0].RequestCount != 300 {
		t.Errorf("%d differences, the first one %v; want 200, and the most frequent newly denied", len(r.Differences), r.Differences[0])
	}
	if r.Differences[149].Kind != adminpb.Report_NEWLY_DENIED || r.Differences[150].Kind != adminpb.Report_RESPONSE_CHANGED {
		t.Errorf("the kinds are not sorted: %v, %v", r.Differences[149].Kind, r.Differences[150].Kind)
	}
	if got, want := sum(r), int64(300*301/2); got != want {
		t.Errorf("the differences have %d requests, want %d", got, want)
	}
}

func TestTrim(t *testing.T) {
	whole := build(many(300))
	report.SetResults(whole, &adminpb.CommitRequirements{MinRequestCount: 1}, nil, report.Committer{})
	before := proto.CloneOf(whole)
	for _, size := range []int{1 << 20, 64 << 10, 32 << 10, 8 << 10, 500, 0} {
		got := report.Trim(whole, size)
		if n := proto.Size(got); n > max(size, 500) {
			t.Errorf("trimmed to %d, it has %d bytes", size, n)
		}
		if sum(got) != sum(whole) || len(got.Requirements) != 1 {
			t.Errorf("trimmed to %d, it has %d requests and %d results; want %d and 1", size, sum(got), len(got.Requirements), sum(whole))
		}
		if !slices.IsSortedFunc(got.Differences, func(a, b *adminpb.Report_Difference) int { return int(a.Kind - b.Kind) }) {
			t.Errorf("trimmed to %d, the differences are not sorted", size)
		}
	}
	if !proto.Equal(whole, before) {
		t.Error("Trim changed the report that it was given")
	}
	if got := report.Trim(whole, 1<<20); !proto.Equal(got, whole) {
		t.Error("a report that fits was trimmed")
	}
}

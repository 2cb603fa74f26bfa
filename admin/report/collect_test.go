package report_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"understudy/admin/report"
	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
)

// record is marshalled evidence of ten requests that are decided alike.
func record(t *testing.T, change func(*evidencepb.Evidence)) []byte {
	t.Helper()
	e := &evidencepb.Evidence{
		ExperimentEtag: "e", PublishTime: at(10), PublishInterval: durationpb.New(4 * time.Second),
		Pairs: []*evidencepb.Pair{{PolicyEtag: "p2", Counts: &evidencepb.Counts{BothAllow: 10}}},
	}
	if change != nil {
		change(e)
	}
	out, err := proto.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCollect sums up what was compacted and what nodes published, and says who reports.
func TestCollect(t *testing.T) {
	plain := record(t, nil)
	published := []report.Published{
		{Node: "recent", Value: plain, Age: authz.NodeLifetime - 1},
		{Node: "late", Value: plain, Age: authz.NodeLifetime},
		{Node: "slow", Value: record(t, func(e *evidencepb.Evidence) { e.PublishInterval = durationpb.New(time.Minute) }), Age: 2*time.Minute - 1},
		{Node: "overdue", Value: record(t, func(e *evidencepb.Evidence) { e.PublishInterval = durationpb.New(time.Minute) }), Age: 2 * time.Minute},
		{Node: "final", Value: record(t, func(e *evidencepb.Evidence) { e.Final = true })},
		{Node: "restarted", Value: plain, Age: time.Hour},
		{Node: "restarted", Value: record(t, func(e *evidencepb.Evidence) { e.PublishTime = at(99) })},
		{Node: "behind", Value: record(t, func(e *evidencepb.Evidence) { e.ExperimentEtag = "before"; e.PublishTime = at(1000) })},
	}
	c, err := report.Collect(report.Content{Etag: "e"}, record(t, nil), published)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"recent", "late", "slow", "overdue", "final", "restarted", "behind", "never"}
	got := report.Build(report.Input{PolicyEtag: "p2", ExperimentEtag: "e", Evidence: c.Evidence, Nodes: c.Nodes(names)})
	if got.RequestCount != 80 {
		t.Errorf("%d requests, want 80", got.RequestCount)
	}
	if silent := strings.Join(got.SilentNodes, " "); silent != "late overdue final behind never" || got.ReportingNodeCount != 3 || got.NodeCount != 8 {
		t.Errorf("silent are %q, %d of %d report; want late overdue final behind never, 3 of 8", silent, got.ReportingNodeCount, got.NodeCount)
	}
	if got.UpdateTime.GetSeconds() != at(99).Seconds || got.PublishInterval.AsDuration() != time.Minute {
		t.Errorf("as of %v, each %v; want %v and a minute", got.UpdateTime, got.PublishInterval, at(99))
	}
}

// TestCollectNothing is no evidence, or some of another content only.
func TestCollectNothing(t *testing.T) {
	foreign := record(t, func(e *evidencepb.Evidence) { e.ExperimentEtag = "before" })
	for name, published := range map[string][]report.Published{"none": nil, "another content": {{Node: "n", Value: foreign}}} {
		c, err := report.Collect(report.Content{Etag: "e"}, nil, published)
		if err != nil || c.Evidence != nil || c.Nodes([]string{"n"})[0].Reports {
			t.Errorf("%s: %v, %v; want nothing", name, c.Evidence, err)
		}
	}
}

// TestCollectDamaged names the record that is no evidence.
func TestCollectDamaged(t *testing.T) {
	if _, err := report.Collect(report.Content{Etag: "e"}, []byte("no evidence"), nil); err == nil || !strings.Contains(err.Error(), "compacted") {
		t.Errorf("damaged compacted evidence: %v", err)
	}
	_, err := report.Collect(report.Content{Etag: "e"}, record(t, nil), []report.Published{{Node: "n1", Value: []byte("no evidence")}})
	if err == nil || !strings.Contains(err.Error(), "n1") {
		t.Errorf("damaged evidence of n1: %v", err)
	}
}

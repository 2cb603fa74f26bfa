package report_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
)

// BenchmarkReport makes the report of an experiment of 1,000 sidecars with 200 groups each.
func BenchmarkReport(b *testing.B) {
	e := &evidencepb.Evidence{
		Experiment: "x", Uid: "u", ExperimentEtag: "e", PublishInterval: durationpb.New(time.Minute),
		Pairs: []*evidencepb.Pair{{PolicyEtag: "p", Counts: &evidencepb.Counts{Unchanged: 1000, NewlyDenied: 200}}},
	}
	p := e.Pairs[0]
	for i := range 196 {
		pattern := fmt.Sprintf("/group%c/page%c", 'a'+i/14, 'a'+i%14)
		g := &evidencepb.Group{Kind: int32(adminpb.Report_NEWLY_DENIED), Method: "GET", Pattern: pattern, Rule: "main", Count: 1}
		if i < 20 {
			g.Examples = []*evidencepb.Example{{Method: "GET", Path: pattern, Principal: "spiffe://cluster.local/ns/a/sa/b"}}
		}
		p.Groups = append(p.Groups, g)
		p.Endpoints = append(p.Endpoints, &evidencepb.Endpoint{Method: "GET", Pattern: pattern, Count: 10})
	}
	value, err := proto.Marshal(e)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(value)), "B/record")
	var published []report.Published
	for i := range 1000 {
		published = append(published, report.Published{Node: fmt.Sprint("n", i), Value: value})
	}
	b.ReportAllocs()
	for b.Loop() {
		c, err := report.Collect("e", nil, published)
		if err != nil {
			b.Fatal(err)
		}
		r := report.Build(report.Input{PolicyEtag: "p", ExperimentEtag: "e", Evidence: c.Evidence})
		if r.RequestCount != 1_200_000 || len(r.Differences) != 196 {
			b.Fatalf("%d requests, %d differences", r.RequestCount, len(r.Differences))
		}
	}
}

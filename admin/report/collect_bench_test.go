package report_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/report"
	evidencepb "understudy/authz/evidence/v1"
)

// BenchmarkCollect collects what 1,000 nodes publish of 200 groups, 32 KB each.
func BenchmarkCollect(b *testing.B) {
	var published []report.Published
	for node := range 1000 {
		pair := &evidencepb.Pair{PolicyEtag: "live", Counts: &evidencepb.Counts{BothAllow: 1000}}
		e := &evidencepb.Evidence{Uid: "uid", ExperimentEtag: "etag", Pairs: []*evidencepb.Pair{pair}}
		for i := range 200 {
			n := (i + node) % 200
			path := fmt.Sprintf("/service%d/resources%d/*", n%14, n/14)
			pair.Endpoints = append(pair.Endpoints, &evidencepb.Endpoint{Method: "GET", Pattern: path, Count: 100})
			pair.Groups = append(pair.Groups, &evidencepb.Group{
				Kind: 1, Method: "GET", Pattern: path, Reason: "no such role", PolicyStatus: 200,
				ExperimentStatus: 403, Count: int64(1 + n%7), FirstTime: timestamppb.Now(), LastTime: timestamppb.Now(),
			})
			if proto.Size(e) > 32_000 {
				break
			}
		}
		value, err := proto.Marshal(e)
		if err != nil {
			b.Fatal(err)
		}
		published = append(published, report.Published{Node: fmt.Sprint(node), Value: value})
	}
	for b.Loop() {
		if _, err := report.Collect(report.Content{UID: "uid", Etag: "etag"}, nil, published); err != nil {
			b.Fatal(err)
		}
	}
}

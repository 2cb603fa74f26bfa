package evidence

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
)

// FuzzRecord: bytes that are no evidence are an error, or evidence that can be added, and no panic.
func FuzzRecord(f *testing.F) {
	tally := NewTally(Content{Experiment: "e", UID: "uid", Etag: "etag"}, nil, NewPatterns())
	r := &authz.Request{Method: "GET", Path: "/orders/7", Principal: "eve", Time: time.Unix(1_700_000_000, 0)}
	for _, d := range []authz.Difference{authz.Unchanged, authz.NewlyAllowed, authz.ResponseChanged} {
		live, experiment := authz.Decision{Effect: authz.Deny, Reason: "no"}, authz.Decision{Effect: authz.Allow}
		tally.Count("live", Comparison{Request: r, Pattern: tally.Patterns().Of(Method(r.Method), r.Path), Outcome: NewOutcome(d, live, experiment, nil), Weight: 4})
		value, err := proto.Marshal(tally.Snapshot(r.Time))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value)
		f.Add(value[:len(value)*3/4])
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		e := &evidencepb.Evidence{}
		if proto.Unmarshal(value, e) != nil {
			return
		}
		sum := NewSum(Content{Experiment: e.GetExperiment(), UID: e.GetUid(), Etag: e.GetExperimentEtag()}, nil)
		sum.Add(e)
		for _, p := range sum.Evidence().GetPairs() {
			for _, g := range p.GetGroups() {
				if n := Callers(g.GetCallers()); n < 0 || n > 1<<32 {
					t.Errorf("a group has %d callers", n)
				}
			}
		}
	})
}

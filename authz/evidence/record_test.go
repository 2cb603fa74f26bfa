package evidence

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	evidencepb "understudy/authz/evidence/v1"
)

// randomEvidence is what a node may publish of one of few groups and endpoints.
func randomEvidence(r *rand.Rand) *evidencepb.Evidence {
	e := &evidencepb.Evidence{Uid: "uid", ExperimentEtag: "etag", PublishTime: &timestamppb.Timestamp{Seconds: r.Int64N(100)}}
	pairs := r.IntN(4)
	for i := range pairs {
		e.Pairs = append(e.Pairs, randomPair(r, fmt.Sprint("live-", (i+r.IntN(3))%6)))
	}
	if r.IntN(3) == 0 {
		e.Earlier = randomPair(r, "")
	}
	return e
}

func randomPair(r *rand.Rand, etag string) *evidencepb.Pair {
	p := &evidencepb.Pair{
		PolicyEtag: etag, Counts: &evidencepb.Counts{Unchanged: r.Int64N(10), NewlyDenied: r.Int64N(10)},
		Other: map[int32]int64{1: r.Int64N(3)}, OtherEndpoints: r.Int64N(3),
		LastTime: &timestamppb.Timestamp{Seconds: r.Int64N(100)},
	}
	for range r.IntN(8) {
		pattern := fmt.Sprintf("/p%d", r.IntN(20))
		p.Endpoints = append(p.Endpoints, &evidencepb.Endpoint{Method: "GET", Pattern: pattern, Count: 1 + r.Int64N(3)})
		g := &evidencepb.Group{
			Kind: r.Int32N(2), Pattern: pattern, Reason: fmt.Sprint("reason ", r.IntN(2)), Count: 1 + r.Int64N(5),
			FirstTime: &timestamppb.Timestamp{Seconds: r.Int64N(100), Nanos: r.Int32N(3)}, LastTime: &timestamppb.Timestamp{Seconds: r.Int64N(100)},
		}
		if r.IntN(2) == 0 {
			var c callers
			for range r.IntN(40) {
				c = c.add(r.Uint32N(50) * 0x9E3779B9)
			}
			g.Callers = c
		}
		if r.IntN(3) == 0 {
			g.Changes = []string{"header x-role", "status"}[:1+r.IntN(2)]
		}
		if r.IntN(4) == 0 {
			// Of equal ones it would matter which was first.
			id := r.Int64()
			g.Examples = []*evidencepb.Example{{Path: fmt.Sprint("/", id), DecisionId: fmt.Sprint(id)}}
			g.Causes = []*evidencepb.Cause{{File: "a.rego", Line: 7}}
		}
		p.Groups = append(p.Groups, g)
	}
	return p
}

// FuzzRecordsAreMerged: records that are added as they are, some in another total, come to
// what their messages come to when they are merged.
func FuzzRecordsAreMerged(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		want, one, two := NewTotal(), NewTotal(), NewTotal()
		for range 1 + r.IntN(12) {
			e := randomEvidence(r)
			value, err := proto.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			want.Add(e)
			to := one
			if r.IntN(3) == 0 {
				to = two
			}
			if _, err := to.AddRecord(value, "etag"); err != nil {
				t.Fatal(err)
			}
			if _, err := to.AddRecord(value, "another"); err != nil {
				t.Fatal(err)
			}
		}
		one.AddTotal(two)
		if a, b := want.Evidence(), one.Evidence(); !proto.Equal(a, b) {
			t.Errorf("merged, they are\n%v\nas records\n%v", a, b)
		}
	})
}

// FuzzRecord: bytes that are no evidence are an error, or evidence, and no panic; what is an
// error here is one of the message, too.
func FuzzRecord(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		value, err := proto.Marshal(randomEvidence(r))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value)
		f.Add(value[:len(value)*3/4])
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		head, err := NewTotal().AddRecord(value, "etag")
		decoding := proto.Unmarshal(value, &evidencepb.Evidence{})
		if err != nil && decoding == nil {
			t.Errorf("the record is refused: %v", err)
		}
		// Pairs of another content are not looked at.
		if err == nil && decoding != nil && head.GetExperimentEtag() == "etag" {
			t.Errorf("the record is taken, and is no message: %v", decoding)
		}
	})
}

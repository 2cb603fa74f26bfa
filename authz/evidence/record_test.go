package evidence

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/axiomhq/hyperloglog"
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
		PolicyEtag: etag, Counts: &evidencepb.Counts{BothAllow: r.Int64N(10), NewlyDenied: r.Int64N(10)},
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
			for range r.IntN(80) { // listed, and more
				c.add(r.Uint32N(100) * 0x9E3779B9)
			}
			g.Callers = c.stored()
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
		total := NewTotal()
		head, err := total.AddRecord(value, "etag")
		decoding := proto.Unmarshal(value, &evidencepb.Evidence{})
		if err != nil && decoding == nil {
			t.Errorf("the record is refused: %v", err)
		}
		// Pairs of another content are not looked at.
		if err == nil && decoding != nil && head.GetExperimentEtag() == "etag" {
			t.Errorf("the record is taken, and is no message: %v", decoding)
		}
		if err != nil {
			return
		}
		for _, p := range total.Evidence().GetPairs() {
			for _, g := range p.GetGroups() {
				if n := Callers(g.GetCallers()); n < 0 || n > 1<<32 {
					t.Errorf("a group has %d callers", n)
				}
			}
		}
	})
}

// TestStoredCallers reads sets as they are stored, and takes what cannot be read for empty.
func TestStoredCallers(t *testing.T) {
	var list, sketch callers
	for i := range uint32(maxListed + 1) {
		if i < maxListed {
			list.add(i * 0x9E3779B9)
		}
		sketch.add(i * 0x9E3779B9)
	}
	changed := func(at int, to byte) []byte {
		out := sketch.stored()
		out[at] = to
		return out
	}
	full := append(slices.Clone(sketchHeader), bytes.Repeat([]byte{64 - precision + 1}, 1<<precision)...)
	finer, err := hyperloglog.New().MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		stored      []byte
		least, most int64
	}{
		"nothing": {nil, 0, 0}, "an empty list": {[]byte{0}, 0, 0}, "a list": {list.stored(), 32, 32},
		"a sketch": {sketch.stored(), 20, 50}, "a list as a sketch": {shortCallers(list.stored()), 20, 50},
		"a list that is not sorted":  {[]byte{0, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0, 9}, 2, 2},
		"full registers":             {full, 1 << 30, 1 << 32},
		"registers more than full":   {changed(20, 64), 0, 0},
		"half a hash":                {[]byte{0, 1, 2}, 0, 0},
		"a list that is too long":    {make([]byte, 1+33*hashBytes), 0, 0},
		"half a sketch":              {sketch.stored()[:40], 0, 0},
		"more behind a sketch":       {append(sketch.stored(), 0), 0, 0},
		"an older sketch":            {changed(0, 1), 0, 0},
		"another number of them":     {changed(1, 18), 0, 0},
		"a sparse sketch":            {changed(3, 1), 0, 0},
		"a sketch of many registers": {finer, 0, 0},
	} {
		if n := Callers(c.stored); n < c.least || n > c.most {
			t.Errorf("%s has %d callers, want %d to %d", name, n, c.least, c.most)
		}
	}
}

// FuzzStoredCallers: bytes that are no set are an empty one and no panic, and to add a set
// twice changes nothing.
func FuzzStoredCallers(f *testing.F) {
	for _, n := range []int{0, 3, maxListed, maxListed + 1, 1000} {
		var c callers
		for i := range n {
			c.add(uint32(i) * 0x9E3779B9)
		}
		f.Add(c.stored())
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		var c callers
		c.addStored(stored)
		n, once := c.count(), c.stored()
		c.addStored(stored)
		c.addStored(once)
		if n < 0 || n > 1<<32 || c.count() != n || !bytes.Equal(c.stored(), once) || Callers(shortCallers(once)) < 0 {
			t.Errorf("%d callers %v are, added again, %d callers %v", n, once, c.count(), c.stored())
		}
	})
}

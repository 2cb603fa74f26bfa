package table_test

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/authz/replay"
)

// evidence is what a traffic comes to. Under overload it is that of the requests that chance chose, each of
// which stands for several, and of which some are examined for items.
func (r *row) evidence(t *testing.T, traffic string) *evidencepb.Evidence {
	t.Helper()
	requests := r.requests(traffic)
	e := r.replay(t, requests)
	if traffic != overloaded {
		return e
	}
	examined := slices.DeleteFunc(slices.Clone(requests), func(q *request) bool { return q.number%examinedOneIn != 0 })
	pair := e.Pairs[0]
	pair.Items = r.replay(t, examined).Pairs[0].Items
	pair.Unexamined = int64(len(requests) - len(examined))
	pair.Weights, pair.Squares = times(pair.Counts, oneIn), times(pair.Counts, oneIn*oneIn)
	sum := evidence.NewSum(evidence.Content{UID: "", Etag: candidateEtag}, nil)
	sum.Add(e)
	for _, q := range r.mixed(meets) {
		if q.number%oneIn != 0 {
			sum.Drop(liveEtag, evidence.Drop{Reason: evidence.Sampled, Time: q.at})
		}
	}
	return sum.Evidence()
}

// times returns counts each of which is n times as large.
func times(of *evidencepb.Counts, n int64) *evidencepb.Counts {
	out := &evidencepb.Counts{}
	of.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.ProtoReflect().Set(field, protoreflect.ValueOfInt64(n*v.Int()))
		return true
	})
	return out
}

// replay has a decision log of requests replayed, as `understudy replay` does.
func (r *row) replay(t *testing.T, requests []*request) *evidencepb.Evidence {
	t.Helper()
	log := logOf(t, requests)
	result, err := replay.Run(t.Context(), replay.Options{
		Live: r.live.message(t), Candidate: r.candidate.message(t), Versions: replay.Versions{LiveEtag: liveEtag, CandidateEtag: candidateEtag}, Strictness: replay.Strictness{Strict: true},
		Files: []replay.File{{Name: "log", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(log)), nil }}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if result.Compared != int64(len(requests)) {
		t.Fatalf("%d of %d requests are compared; skipped %v", result.Compared, len(requests), result.Skipped)
	}
	return result.Evidence
}

// logOf is a decision log as OPA writes it, which does not say what was decided.
func logOf(t *testing.T, requests []*request) []byte {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	for _, q := range requests {
		err := encoder.Encode(map[string]any{
			"decision_id": q.id, "path": "envoy/authz/allow", "timestamp": q.at.Format(time.RFC3339Nano), "input": q.input,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

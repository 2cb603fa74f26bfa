package input_test

import (
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/input"
)

// projected is what a request is to a read set: its key, if it has one, and its input document or
// why it has none.
type projected struct {
	key      string
	keyed    bool
	document any
	err      string
}

func projectedOf(t *testing.T, r *authz.Request, set *authz.ReadSet) (out projected) {
	t.Helper()
	key, keyed := r.Projector.Key(t.Context(), set, time.Unix(1_700_000_000, 0), nil)
	out.key, out.keyed = string(key), keyed
	made, err := r.Projector.Input(nil, set)
	if err != nil {
		out.err = err.Error()
		return out
	}
	out.document = documentOf(t, made)
	return out
}

// holdsSent holds that whoever reads what is sent of a request for a set gets the same of it. It
// reports whether something was left out.
func holdsSent(t *testing.T, reader *input.Reader, wire []byte, set *authz.ReadSet) bool {
	t.Helper()
	r, _, err := reader.Read(wire)
	if err != nil {
		return false
	}
	if all := r.Sent.CheckRequest(nil); all != string(wire) {
		t.Fatalf("of everything, %d bytes of %d are sent", len(all), len(wire))
	}
	sent := r.Sent.CheckRequest(set)
	again, _, err := reader.ReadString(sent)
	if err != nil {
		t.Fatalf("what is sent is no request: %v", err)
	}
	want, got := projectedOf(t, r, set), projectedOf(t, again, set)
	if want.key != got.key || want.keyed != got.keyed || want.err != got.err || checktest.Difference(want.document, got.document) != "" {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if r.Method != again.Method || r.Path != again.Path || r.Host != again.Host || r.Principal != again.Principal || r.Project != again.Project {
		t.Errorf("got %+v, want %+v", again, r)
	}
	return len(sent) < len(wire)
}

// TestWhatIsSentIsTheSameToWhoReadsIt: a large body is left out for who reads nothing of it, and
// nothing else is, of any request.
func TestWhatIsSentIsTheSameToWhoReadsIt(t *testing.T) {
	reader := &input.Reader{}
	leftOut, kept := 0, 0
	for i, reads := range someReads(t) {
		set := authz.NewReadSet(reads)
		for _, request := range append(checktest.Seeds(t), checktest.Istio()) {
			request := proto.CloneOf(request)
			if http := request.GetAttributes().GetRequest().GetHttp(); http != nil && i%2 == 0 {
				http.Body, http.RawBody = "", []byte(strings.Repeat("{", 10_000))
			} else if http != nil {
				http.Body, http.RawBody = strings.Repeat("é", 10_000), nil
			}
			wire, err := proto.Marshal(request)
			if err != nil {
				t.Fatal(err)
			}
			if holdsSent(t, reader, wire, set) {
				leftOut++
			} else {
				kept++
			}
		}
		for seed := range uint64(50) {
			if wire := checktest.RandomWire(t, seed); len(wire) < 4000 && holdsSent(t, reader, wire, set) {
				t.Errorf("seed %d: something is left out of a small request", seed)
			}
		}
	}
	if leftOut < 500 || kept < 500 {
		t.Errorf("of %d requests the body is left out, and of %d it is not: the test shows nothing", leftOut, kept)
	}
}

// FuzzSent holds the same of any bytes.
func FuzzSent(f *testing.F) {
	for i, request := range checktest.Seeds(f) {
		wire, err := proto.Marshal(request)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire, uint8(i), i%2 == 0)
	}
	sets := someReads(f)
	f.Fuzz(func(t *testing.T, wire []byte, which uint8, large bool) {
		request := &authv3.CheckRequest{}
		if large && proto.Unmarshal(wire, request) == nil && request.GetAttributes().GetRequest().GetHttp() != nil {
			// Of two bodies that follow each other the last one counts.
			more, err := proto.Marshal(checktest.HTTP(&authv3.AttributeContext_HttpRequest{Body: strings.Repeat("x", 5000)}))
			if err != nil {
				t.Fatal(err)
			}
			wire = append(wire[:len(wire):len(wire)], more...)
		}
		holdsSent(t, &input.Reader{}, wire, authz.NewReadSet(sets[int(which)%len(sets)]))
	})
}

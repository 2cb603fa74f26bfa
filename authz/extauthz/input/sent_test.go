package input_test

import (
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/input"
)

// bodiless returns the document of a request without the body, as it was sent and as it was read, or why
// there is none.
func bodiless(t *testing.T, r *authz.Request) (document any, why string) {
	t.Helper()
	made, err := r.WithoutBody(nil)
	if err != nil {
		return nil, err.Error()
	}
	document = documentOf(t, made)
	if http, ok := standing(document, []any{"attributes", "request", "http"}); ok {
		delete(http.(map[string]any), "body")
		delete(http.(map[string]any), "rawBody")
	}
	return document, ""
}

// holdsSent holds that all of a request is sent to who reads its body, and that who does not gets the same of
// all else. It reports whether something is left out for the latter.
func holdsSent(t *testing.T, reader *input.Reader, wire []byte) bool {
	t.Helper()
	r, _, err := reader.Read(wire)
	if err != nil {
		return false
	}
	if all := r.Sent.CheckRequest(true); all != string(wire) {
		t.Fatalf("%d bytes of %d are sent", len(all), len(wire))
	}
	sent := r.Sent.CheckRequest(false)
	again, _, err := reader.ReadString(sent)
	if err != nil {
		t.Fatalf("what is sent is no request: %v", err)
	}
	want, wantErr := bodiless(t, r)
	got, gotErr := bodiless(t, again)
	if diff := checktest.Difference(want, got); diff != "" || wantErr != gotErr {
		t.Errorf("the error is %q, want %q (-want +got):\n%s", gotErr, wantErr, diff)
	}
	if r.Method != again.Method || r.Path != again.Path || r.Host != again.Host || r.Principal != again.Principal || r.Project != again.Project {
		t.Errorf("got %+v, want %+v", again, r)
	}
	return len(sent) < len(wire)
}

// TestWhatIsSentIsTheSameToWhoReadsIt: a large body is left out for who does not read it, and nothing else
// is, of any request.
func TestWhatIsSentIsTheSameToWhoReadsIt(t *testing.T) {
	reader, leftOut := &input.Reader{}, 0
	for i, request := range append(checktest.Seeds(t), checktest.Istio()) {
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
		if holdsSent(t, reader, wire) {
			leftOut++
		}
	}
	if leftOut < 50 {
		t.Errorf("the body of %d requests is left out: the test shows nothing", leftOut)
	}
	for seed := range uint64(300) {
		if wire := checktest.RandomWire(t, seed); len(wire) < 4000 && holdsSent(t, reader, wire) {
			t.Errorf("seed %d: something is left out of a small request", seed)
		}
	}
}

// FuzzSent holds the same of any bytes.
func FuzzSent(f *testing.F) {
	for i, request := range checktest.Seeds(f) {
		wire, err := proto.Marshal(request)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire, i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, wire []byte, large bool) {
		request := &authv3.CheckRequest{}
		if large && proto.Unmarshal(wire, request) == nil && request.GetAttributes().GetRequest().GetHttp() != nil {
			// Of two bodies that follow each other the last one counts.
			more, err := proto.Marshal(checktest.HTTP(&authv3.AttributeContext_HttpRequest{Body: strings.Repeat("x", 5000)}))
			if err != nil {
				t.Fatal(err)
			}
			wire = append(wire[:len(wire):len(wire)], more...)
		}
		holdsSent(t, &input.Reader{}, wire)
	})
}

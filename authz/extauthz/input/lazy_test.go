package input_test

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/authz/extauthz/body"
	"understudy/authz/extauthz/input"

	"google.golang.org/protobuf/proto"

	"understudy/authz/extauthz/checktest"
	"understudy/cmd/testkit"
	"understudy/rego"
)

// TestLazyDecoderReadsEnvoysRequests: what Envoy sends must not be decoded in full.
func TestLazyDecoderReadsEnvoysRequests(t *testing.T) {
	wire, err := proto.Marshal(checktest.Istio())
	if err != nil {
		t.Fatal(err)
	}
	if why := input.FallbackOf(wire); why != "" {
		t.Errorf("it is decoded in full: %s", why)
	}
	if !holdsLazy(t, wire) {
		t.Error("its parts are not held against the whole document")
	}
}

// TestLazyDecoderIsTheFullDecode compares both for random requests.
func TestLazyDecoderIsTheFullDecode(t *testing.T) {
	read, requests := 0, testkit.Cases(3000)
	for seed := range uint64(requests) {
		content := checktest.RandomWire(t, seed)
		if holdsLazy(t, content) {
			read++
			holdsShuffled(t, rand.New(rand.NewPCG(seed, 4)), content)
		}
	}
	if read < requests/10 {
		t.Errorf("only %d requests were read by the lazy decoder", read)
	}
}

// reader knows the gRPC methods of the health service.
var reader = sync.OnceValue(func() *input.Reader {
	messages, err := body.NewMessages(checktest.HealthService())
	if err != nil {
		panic(err)
	}
	return &input.Reader{Bodies: body.Parser{Messages: messages}}
})

func documentOf(t testing.TB, input rego.Input) any {
	t.Helper()
	out, err := input.Document()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// holdsLazy checks one request: what the lazy decoder makes of it at each path is what stands there in the
// document of the full decode, and its whole document is that of the plain reading of the specification. It
// reports whether the lazy decoder read it.
func holdsLazy(t *testing.T, wire []byte) bool {
	t.Helper()
	if input.FallbackOf(wire) != "" {
		return false
	}
	holdsParts(t, wire, rand.New(rand.NewPCG(uint64(len(wire)), 5)))
	specified := specification(t, wire)
	got, err := partsOf(t, wire).At(pathTo(nil))
	if specified == nil || err != nil {
		return true
	}
	if diff := checktest.Difference(specified, documentOf(t, got.Input())); diff != "" {
		t.Fatalf("(-specification +lazy decoder):\n%s", diff)
	}
	return true
}

// specification returns what the specification makes of a request: nil if it does not parse,
// or is not one whose body the plain reading of the specification knows.
func specification(t *testing.T, wire []byte) any {
	t.Helper()
	request := &authv3.CheckRequest{}
	if proto.Unmarshal(wire, request) != nil || request.Attributes == nil {
		return nil
	}
	headers := checktest.Headers(request.GetAttributes().GetRequest().GetHttp())
	if kind := strings.ToLower(headers["content-type"]); strings.Contains(kind, "multipart") || strings.Contains(kind, `"`) {
		return nil
	}
	document, ok := checktest.Document(t, request)
	if !ok {
		return nil
	}
	return document
}

// FuzzLazy holds the lazy decoder, the full decode and the specification equal, with maps in any order.
func FuzzLazy(f *testing.F) {
	for _, request := range checktest.Seeds(f) {
		wire, err := proto.Marshal(request)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	for seed := range uint64(50) {
		f.Add(checktest.RandomWire(f, seed))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		if holdsLazy(t, wire) {
			holdsShuffled(t, rand.New(rand.NewPCG(uint64(len(wire)), 4)), wire)
		}
	})
}

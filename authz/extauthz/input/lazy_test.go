package input_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/authz/extauthz/body"
	"understudy/authz/extauthz/input"

	"google.golang.org/protobuf/proto"

	"understudy/authz/extauthz/checktest"
	"understudy/rego"
)

// reads returns the read set of a condition.
func reads(t testing.TB, condition string) *rego.Reads {
	t.Helper()
	p, err := rego.Compile(context.Background(), rego.Source{
		Modules: map[string]string{"m.rego": "package p\nallow if { " + condition + " }"}, Paths: []string{"p/allow"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.Reads("p/allow")
}

// jwtPayload is where Envoy's jwt_authn puts the claims of a token that it has verified.
const jwtPayload = `input.attributes.metadataContext.filterMetadata["envoy.filters.http.jwt_authn"].payload`

// someReads are read sets as policies have them, and odd ones.
func someReads(t testing.TB) []*rego.Reads {
	return []*rego.Reads{
		rego.ReadsEverything,
		reads(t, `true`),
		reads(t, `input.attributes.request.http.method == "GET"; startswith(input.attributes.request.http.path, "/")`),
		reads(t, `input.parsed_path[0] == "a"; input.parsed_query.b[0] == "c"`),
		reads(t, `input.parsed_path[1] == "a"; input.parsed_path[3] == "b"`),
		reads(t, `input.parsed_path[1].deeper == "a"; input.parsed_query[0] == "b"`),
		reads(t, `input.attributes.request.http.headers.authorization == "x"; input.attributes.source.principal == "a"`),
		reads(t, `h := input.attributes.request.http.headers; object.get(h, "content-type", "x") == "y"`),
		reads(t, `some k, v in input.attributes.request.http.headers; k == v`),
		reads(t, `input.attributes.contextExtensions.policy == "a"; input.attributes.tlsSession.sni == "b"`),
		reads(t, `input.attributes.metadataContext.filterMetadata.a.b == 1; input.attributes.source.labels["a"]`),
		reads(t, `claims := `+jwtPayload+`; claims.sub == "alice"; "admin" in claims.roles; claims.nested.a[1] == 2.5`),
		reads(t, `some k, v in `+jwtPayload+`; k == v`),
		reads(t, jwtPayload+`.sub.deeper == 1; `+jwtPayload+`.roles.deeper == 1; not `+jwtPayload+`.nothing`),
		reads(t, `some name, claims in input.attributes.metadataContext.filterMetadata; claims[name]`),
		reads(t, `input.attributes.metadataContext.filterMetadata.a.a.b == 1; input.attributes.metadataContext.typedFilterMetadata.a.typeUrl == "b"`),
		reads(t, `object.get(input.attributes.metadataContext.filterMetadata.a, "b", 1) == 1; input.attributes.routeMetadataContext.filterMetadata[""].a[0].b`),
		reads(t, `some k, v in input.attributes.contextExtensions; some l, w in input.attributes.source.labels; k == l; v == w`),
		reads(t, `input.attributes.destination.address.socketAddress.portValue == 1; input.attributes.request.time.seconds > 1`),
		reads(t, `input.truncated_body`),
		reads(t, `input.parsed_body.a == 1; not input.truncated_body; input.source_principal; input.nothing.here`),
		reads(t, `input.attributes.request.http.body == "x"; input.attributes.request.http.rawBody == "x"; input.truncated_body`),
		reads(t, `["a", _, b] = input.parsed_path; b != "c"`),
		reads(t, `[_, [_], "x"] = input.parsed_path; count(input.parsed_path) == 3; input.parsed_path[0] == "a"`),
		reads(t, `some p in ["/", "/a", "/a/"]; startswith(input.attributes.request.http.path, p); endswith(input.attributes.request.http.path, "b")`),
		reads(t, `not contains(input.attributes.request.http.rawBody, "YQ"); input.attributes.request.http.method in {"GET", "PUT"}`),
		reads(t, `h := input.attributes.request.http.headers; lower(h["x-a"]) == "b"; regex.match("^a", h.authorization); glob.match("*a", [], h.accept)`),
		reads(t, `[_, claims, _] := io.jwt.decode(substring(input.attributes.request.http.headers.authorization, 7, -1)); claims.sub == "alice"`),
		reads(t, `x := input.attributes.request; x.http.size == 3; input.attributes.request.http.path.deeper == 1`),
	}
}

// TestLazyDecoderReadsEnvoysRequests: what Envoy sends must not be decoded in full.
func TestLazyDecoderReadsEnvoysRequests(t *testing.T) {
	wire, err := proto.Marshal(checktest.Istio())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok, err := project(wire, rego.ReadsEverything); !ok || err != nil {
		t.Errorf("it is decoded in full; error %v", err)
	}
}

// TestLazyDecoderIsTheFullDecode compares both for random requests.
func TestLazyDecoderIsTheFullDecode(t *testing.T) {
	sets, read := someReads(t), 0
	requests := 3000
	if testing.Short() {
		requests = 150
	}
	for seed := range uint64(requests) {
		content := checktest.RandomWire(t, seed)
		if holdsLazy(t, content, sets) {
			read++
			holdsShuffled(t, rand.New(rand.NewPCG(seed, 4)), content, sets)
		}
	}
	if read < requests/10 {
		t.Errorf("only %d requests were read by the lazy decoder", read)
	}
}

// reader knows the gRPC methods of the health service.
var reader = sync.OnceValue(func() *input.Reader {
	bodies, err := body.NewParser(checktest.HealthService())
	if err != nil {
		panic(err)
	}
	return &input.Reader{Bodies: bodies}
})

// project returns what the lazy decoder makes of a request for a read set.
func project(wire []byte, set *rego.Reads) (input rego.Input, key string, ok bool, err error) {
	return reader().Project(wire, set)
}

func documentOf(t testing.TB, input rego.Input) any {
	t.Helper()
	out, err := input.Document()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// holdsLazy checks one request by every read set: what the lazy decoder makes of it is what
// stands in the document of the full decode at each place that is read, and in that of the
// plain reading of the specification. It reports whether the lazy decoder read it.
func holdsLazy(t *testing.T, wire []byte, sets []*rego.Reads) bool {
	t.Helper()
	specified := specification(t, wire)
	for _, set := range sets {
		input, _, ok, err := project(wire, set)
		if !ok {
			return false
		}
		decoded, wantErr := reader().ProjectDecoded(wire, set)
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("%s: the lazy decoder has the error %v, the full decode %v", set, err, wantErr)
		}
		if err != nil {
			continue
		}
		want, got := documentOf(t, decoded), documentOf(t, input)
		if diff := checktest.Difference(restricted(want, set), restricted(got, set)); diff != "" {
			t.Fatalf("%s (-full decode +lazy decoder):\n%s", set, diff)
		}
		if specified != nil {
			if diff := checktest.Difference(restricted(specified, set), restricted(got, set)); diff != "" {
				t.Fatalf("%s (-specification +lazy decoder):\n%s", set, diff)
			}
		}
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

// restricted returns what of a document a read set names.
func restricted(document any, set *rego.Reads) any {
	if array, ok := document.([]any); ok {
		return restrictedArray(array, set)
	}
	object, ok := document.(map[string]any)
	if !ok || set.Whole() {
		return document
	}
	out := map[string]any{}
	for _, name := range set.Names() {
		if value, ok := object[name]; ok {
			out[name] = restricted(value, set.Child(name))
		}
	}
	return out
}

// restrictedArray returns the elements that a read set names.
func restrictedArray(array []any, set *rego.Reads) any {
	if set.Whole() {
		return array
	}
	out := map[string]any{}
	for i, element := range array {
		if child := set.Child(rego.IndexName(i)); child != nil {
			out[rego.IndexName(i)] = restricted(element, child)
		}
	}
	return out
}

// FuzzLazy holds the lazy decoder, the full decode and the specification equal, and keys
// apart: in two requests of one key the same is observed.
func FuzzLazy(f *testing.F) {
	for _, request := range checktest.Seeds(f) {
		wire, err := proto.Marshal(request)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire, wire[:len(wire)/2])
	}
	for seed := range uint64(50) {
		f.Add(checktest.RandomWire(f, seed), checktest.RandomWire(f, seed+1))
	}
	sets := someReads(f)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if holdsLazy(t, a, sets) {
			holdsShuffled(t, rand.New(rand.NewPCG(uint64(len(a)), 4)), a, sets)
		}
		for _, set := range sets {
			first, key, ok, err := project(a, set)
			second, other, okToo, errToo := project(b, set)
			if !ok || !okToo || err != nil || errToo != nil || key != other {
				continue
			}
			at := rego.ValidFrom(context.Background(), time.Unix(1_700_000_000, 0))
			observed := set.Observe()
			if string(rego.AppendObserved(nil, observed, first, &at)) != string(rego.AppendObserved(nil, observed, second, &at)) {
				t.Errorf("two requests share a key with %s (-a +b):\n%s", set, checktest.Difference(documentOf(t, first), documentOf(t, second)))
			}
		}
	})
}

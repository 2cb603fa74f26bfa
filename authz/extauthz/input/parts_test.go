package input_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/open-policy-agent/opa/v1/ast"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/extauthz/checktest"
	"understudy/rego"
)

// deepest is the length of the longest path that is asked for: bodies are nested a thousand times deeper.
const deepest = 12

// keysOf returns all paths of a document as far as they are short: names of objects and positions in
// arrays, from the root on.
func keysOf(document any, depth int) [][]any {
	out := [][]any{{}}
	if depth == deepest {
		return out
	}
	add := func(key, value any) {
		for _, below := range keysOf(value, depth+1) {
			out = append(out, append([]any{key}, below...))
		}
	}
	switch v := document.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			add(name, v[name])
		}
	case []any:
		for i, element := range v {
			add(i, element)
		}
	}
	return out
}

// mostOfSealed is how many paths into what is parsed each time are asked for.
const mostOfSealed = 6

// someKeys returns all paths of a document, but some of those into what has to be parsed.
func someKeys(r *rand.Rand, document any) [][]any {
	all, sealed := keysOf(document, 0), 0
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return slices.DeleteFunc(all, func(keys []any) bool {
		if len(keys) == 0 || !slices.Contains(authz.SealedPlaces, anyText(keys[0])) {
			return false
		}
		sealed++
		return sealed > mostOfSealed
	})
}

// standing returns what stands at keys of a document, and whether something does.
func standing(document any, keys []any) (any, bool) {
	for _, key := range keys {
		switch v := document.(type) {
		case map[string]any:
			name, isName := key.(string)
			below, ok := v[name]
			if !isName || !ok {
				return nil, false
			}
			document = below
		case []any:
			i, ok := key.(int)
			if !ok || i >= len(v) {
				return nil, false
			}
			document = v[i]
		default:
			return nil, false
		}
	}
	return document, true
}

// pathTo returns a path as evaluations have it.
func pathTo(keys []any) *rego.Path {
	p := &rego.Path{}
	for _, key := range keys {
		switch k := key.(type) {
		case string:
			p.Keys = append(p.Keys, ast.StringTerm(k))
		case int:
			p.Keys = append(p.Keys, ast.NumberTerm(json.Number(strconv.Itoa(k))))
		}
	}
	return p
}

// strayed returns paths near one: longer, shorter, next to it, and with a name in place of a position or
// the other way round.
func strayed(r *rand.Rand, keys []any) [][]any {
	odd := []any{"", "x", "0", "1", 0, 1, 2, 7, 1 << 40, "parsed_path", "attributes", "filterMetadata", "authorization"}
	pick := func() any { return odd[r.IntN(len(odd))] }
	out := [][]any{append(slices.Clip(keys), pick()), append(slices.Clip(keys), pick(), pick())}
	if len(keys) == 0 {
		return out
	}
	i := r.IntN(len(keys))
	other := slices.Clone(keys)
	switch key := keys[i].(type) {
	case int:
		other[i] = []any{key + 1, max(key-1, 0), strconv.Itoa(key)}[r.IntN(3)]
	default:
		other[i] = pick()
	}
	return append(out, other)
}

// holdsParts checks that at each path, and near it, a request has what stands there in its whole document.
func holdsParts(t *testing.T, wire []byte, r *rand.Rand) {
	t.Helper()
	request, _, err := reader().Read(wire)
	if err != nil {
		return
	}
	whole, wantErr := request.Source(nil)
	parts, err := request.Parts(nil)
	if err != nil {
		if wantErr == nil || wantErr.Error() != err.Error() {
			t.Fatalf("its parts have the error %v, the document %v", err, wantErr)
		}
		return
	}
	if _, err := parts.At(pathTo(nil)); (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
		t.Fatalf("the root has the error %v, the document %v", err, wantErr)
	}
	if wantErr != nil { // of the body: the rest is there
		if whole, err = request.WithoutBody(nil, false); err != nil {
			t.Fatal(err)
		}
	}
	document := documentOf(t, whole)
	for _, keys := range someKeys(r, document) {
		for _, keys := range append(strayed(r, keys), keys) {
			holdsPart(t, parts, document, keys, wantErr != nil)
		}
	}
}

// holdsPart checks one path. Of a document without the body it is not known what stands in that.
func holdsPart(t *testing.T, parts rego.Request, document any, keys []any, bodiless bool) {
	t.Helper()
	path, isSealed := pathTo(keys), len(keys) > 0 && slices.Contains(authz.SealedPlaces, anyText(keys[0]))
	if got := parts.Sealed(path); got != isSealed {
		t.Fatalf("%v is sealed: %v", keys, got)
	}
	if bodiless && (len(keys) == 0 || isSealed && keys[0] != "parsed_query") {
		return
	}
	for range 2 {
		got, err := parts.At(path)
		if err != nil {
			t.Fatalf("%v: %v", keys, err)
		}
		want, ok := standing(document, keys)
		if is := got != (rego.Value{}); is != ok {
			t.Fatalf("%v is there: %v, want %v", keys, is, ok)
		}
		if diff := checktest.Difference(want, documentOf(t, got.Input())); diff != "" {
			t.Fatalf("%v (-document +part):\n%s", keys, diff)
		}
	}
}

func anyText(key any) string { text, _ := key.(string); return text }

// changes are what a seal has to have: all that says what the body and the query are.
var changes = []func(http *authv3.AttributeContext_HttpRequest, text string){
	func(http *authv3.AttributeContext_HttpRequest, text string) { http.Body = text },
	func(http *authv3.AttributeContext_HttpRequest, text string) { http.RawBody = []byte(text) },
	func(http *authv3.AttributeContext_HttpRequest, text string) { http.Path += text },
	func(http *authv3.AttributeContext_HttpRequest, text string) { http.Path = text },
	func(http *authv3.AttributeContext_HttpRequest, text string) { setHeader(http, "content-type", text) },
	func(http *authv3.AttributeContext_HttpRequest, text string) { setHeader(http, "content-length", text) },
	func(http *authv3.AttributeContext_HttpRequest, text string) {
		setHeader(http, "x-envoy-auth-partial-body", text)
	},
}

func setHeader(http *authv3.AttributeContext_HttpRequest, name, value string) {
	if http.HeaderMap != nil {
		http.HeaderMap.Headers = append(http.HeaderMap.Headers, checktest.RawHeaders(name, value).Headers...)
		return
	}
	if http.Headers == nil {
		http.Headers = make(map[string]string)
	}
	http.Headers[name] = value
}

// holdsSeals changes a request, and checks that the seals of what differs by that differ.
func holdsSeals(t *testing.T, wire []byte, change func(*authv3.AttributeContext_HttpRequest, string), text string) (differ int) {
	t.Helper()
	message := &authv3.CheckRequest{}
	if proto.Unmarshal(wire, message) != nil || message.GetAttributes().GetRequest().GetHttp() == nil {
		return 0
	}
	change(message.GetAttributes().GetRequest().GetHttp(), text)
	changed, err := proto.Marshal(message)
	if err != nil {
		return 0 // no UTF-8
	}
	a, b := partsOf(t, wire), partsOf(t, changed)
	if a == nil || b == nil {
		return 0
	}
	for _, place := range authz.SealedPlaces {
		path := pathTo([]any{place})
		alike := bytes.Equal(a.Seal(path, []byte("x")), b.Seal(path, []byte("x")))
		x, xErr := a.At(path)
		y, yErr := b.At(path)
		if (xErr == nil) == (yErr == nil) && (x == rego.Value{}) == (y == rego.Value{}) &&
			(xErr != nil || checktest.Difference(documentOf(t, x.Input()), documentOf(t, y.Input())) == "") {
			continue
		}
		differ++
		if alike {
			t.Fatalf("%s differs, its seal does not: %v", place, message)
		}
	}
	return differ
}

// partsOf returns the parts of a request; nil if it has none.
func partsOf(t *testing.T, wire []byte) rego.Request {
	t.Helper()
	request, _, err := reader().Read(wire)
	if err != nil {
		return nil
	}
	parts, err := request.Parts(nil)
	if err != nil {
		return nil
	}
	return parts
}

// sealTexts are what requests are changed to.
var sealTexts = []string{"", "1", "true", "application/json", "application/x-www-form-urlencoded", "application/grpc", `{"a": 1}`, "a=b", "?a=b", "/grpc.health.v1.Health/Watch"}

// TestSealsDiffer changes the requests of testdata and of a real Envoy: what differs has another seal.
// With -short it tries a tenth of the texts with each change.
func TestSealsDiffer(t *testing.T) {
	differ := make([]int, len(changes))
	for n, request := range checktest.Seeds(t) {
		wire, err := proto.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		for i, change := range changes {
			for k, text := range sealTexts {
				if !testing.Short() || (n+i+k)%10 == 0 {
					differ[i] += holdsSeals(t, wire, change, text)
				}
			}
		}
	}
	if t.Logf("%d values differ", differ); slices.Min(differ) == 0 {
		t.Error("a change makes no difference")
	}
}

// FuzzParts holds what an evaluation asks a request for against the whole document: at all of its paths,
// and next to them; and seals against what is sealed.
func FuzzParts(f *testing.F) {
	i := 0
	add := func(wire []byte) {
		f.Add(wire, uint64(i), uint(i), sealTexts[i%len(sealTexts)])
		i++
	}
	for _, request := range checktest.Seeds(f) {
		wire, err := proto.Marshal(request)
		if err != nil {
			f.Fatal(err)
		}
		add(wire)
	}
	for seed := range uint64(50) {
		add(checktest.RandomWire(f, seed))
	}
	f.Fuzz(func(t *testing.T, wire []byte, seed uint64, change uint, text string) {
		holdsParts(t, wire, rand.New(rand.NewPCG(seed, 5)))
		holdsSeals(t, wire, changes[change%uint(len(changes))], text)
	})
}

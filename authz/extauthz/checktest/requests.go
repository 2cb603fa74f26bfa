package checktest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// HTTP is a CheckRequest of one HTTP request.
func HTTP(http *authv3.AttributeContext_HttpRequest) *authv3.CheckRequest {
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request: &authv3.AttributeContext_Request{Http: http},
	}}
}

// RawHeaders makes the headers of names and values in turn, as Envoy sends them with
// encode_raw_headers: a list in which a name may come twice, and values are bytes.
func RawHeaders(pairs ...string) *corev3.HeaderMap {
	out := &corev3.HeaderMap{}
	for i := 0; i < len(pairs); i += 2 {
		out.Headers = append(out.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return out
}

// Istio is a request as Istio sends it: SPIFFE principals, 15 headers, a token of 800
// bytes. It is the usual request: tests of cost and caching use it.
func Istio() *authv3.CheckRequest {
	headers := map[string]string{
		":authority": "orders.shop.svc.cluster.local", ":method": "GET", ":path": "/api/orders/17?expand=items", ":scheme": "http",
		"accept": "*/*", "accept-encoding": "gzip, deflate", "authorization": "Bearer " + strings.Repeat("x", 800),
		"user-agent": "Mozilla/5.0 (X11; Linux x86_64)", "x-forwarded-proto": "http", "x-request-id": "b1a7c9de-0000-4000-8000-000000000001",
		"x-b3-traceid": "0af7651916cd43dd8448eb211c80319c", "x-b3-spanid": "b7ad6b7169203331", "x-b3-sampled": "1",
		"x-envoy-attempt-count": "1", "x-forwarded-client-cert": "By=spiffe://cluster.local/ns/shop/sa/orders;Hash=0123;URI=spiffe://cluster.local/ns/shop/sa/web",
	}
	peer := func(address string, port uint32, account string) *authv3.AttributeContext_Peer {
		return &authv3.AttributeContext_Peer{
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
			}}},
			Principal: "spiffe://cluster.local/ns/shop/sa/" + account,
		}
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: peer("10.1.2.3", 61402, "web"), Destination: peer("10.1.2.4", 8080, "orders"),
		Request: &authv3.AttributeContext_Request{
			Time: &timestamppb.Timestamp{Seconds: 1_700_000_000, Nanos: 5},
			Http: &authv3.AttributeContext_HttpRequest{
				Id: "13359530607844510314", Method: "GET", Headers: headers, Path: headers[":path"], Host: headers[":authority"],
				Scheme: "http", Protocol: "HTTP/1.1",
			},
		},
		MetadataContext: &corev3.Metadata{}, RouteMetadataContext: &corev3.Metadata{},
	}}
}

// Fill populates about half of the fields of a message, at random, down to eight
// levels. It goes by the descriptor, so that no field is forgotten; the values are
// chosen where encoders go wrong: empty, zero, the ends of each type, text with
// escapes.
func Fill(r *rand.Rand, m protoreflect.Message, depth int) {
	descriptors := m.Descriptor().Fields()
	for i := range descriptors.Len() {
		fd := descriptors.Get(i)
		// Messages such as Struct contain themselves; without a bound this would not
		// end.
		if r.IntN(2) == 0 || depth > 8 {
			continue
		}
		switch {
		case fd.IsMap():
			for range r.IntN(3) {
				value := m.Mutable(fd).Map().NewValue()
				m.Mutable(fd).Map().Set(protoreflect.ValueOfString(randomText(r)).MapKey(), fillValue(r, fd.MapValue(), value, depth))
			}
		case fd.IsList():
			for range r.IntN(3) {
				list := m.Mutable(fd).List()
				list.Append(fillValue(r, fd, list.NewElement(), depth))
			}
		default:
			m.Set(fd, fillValue(r, fd, m.NewField(fd), depth))
		}
	}
}

// fillValue returns a random value for a field. A kind that it does not know is a
// panic: Envoy has a new kind of field, and the document needs a rule for it.
func fillValue(r *rand.Rand, fd protoreflect.FieldDescriptor, value protoreflect.Value, depth int) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		Fill(r, value.Message(), depth+1)
		return value
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(randomText(r))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(randomText(r)))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(2) == 0)
	case protoreflect.EnumKind:
		// NullValue has no other number; SocketAddress.Protocol has two.
		if fd.Enum().Values().Len() == 1 {
			return value
		}
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.IntN(3)))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64([]int64{0, -1, 7, 1<<53 + 1, -1 << 63}[r.IntN(5)])
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32([]int32{0, 5, -9, 1<<31 - 1}[r.IntN(4)])
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32([]uint32{0, 8443, 1<<32 - 1}[r.IntN(3)])
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64([]float64{0, 1, -2.5, 1e21, 1e-7, math.NaN(), math.Inf(-1)}[r.IntN(7)])
	}
	panic(fmt.Sprintf("a field of a kind that is new: %s", fd.FullName()))
}

func randomText(r *rand.Rand) string {
	return []string{"", "a", "b", "policy", "x-y", "é", "a b", "/a/b?c=d", "%", "\"\\"}[r.IntN(10)]
}

// MakePlausible gives most requests a path and a body that parse. A purely random
// request nearly always fails at its path, and the rules for bodies would hardly be
// reached.
func MakePlausible(r *rand.Rand, a *authv3.AttributeContext) {
	if r.IntN(10) == 0 || a.GetRequest().GetHttp() == nil {
		return
	}
	http := a.Request.Http
	// Each of these reaches a rule of its own: no path, empty segments, an escaped
	// slash, bad escapes, a query alone, the path of a gRPC method, semicolons.
	http.Path = []string{
		"", "/", "//a/b", "/a%2fb/?c=d&c=%20&e", "/x?y=%", "/%zz", "?a", "/grpc.health.v1.Health/Check", "/a;b?c;d",
	}[r.IntN(9)]
	headers := map[string]string{}
	if t := []string{
		"", "application/json", "text/json, application/json", "application/grpc", "application/x-www-form-urlencoded",
		"multipart/form-data; boundary=B", "multipart/form-data", "text/plain", "APPLICATION/JSON",
	}[r.IntN(9)]; t != "" {
		headers["content-type"] = t
	}
	if l := []string{"", "", "", "0", "5", "100000", "x", "-1"}[r.IntN(8)]; l != "" {
		headers["content-length"] = l
	}
	if p := []string{"", "", "", "false", "true"}[r.IntN(5)]; p != "" {
		headers["x-envoy-auth-partial-body"] = p
	}
	// One or more bodies of each type, good and broken: JSON with exact numbers, a cut
	// one, two values, forms, a multipart form, gRPC frames (whole, compressed, longer
	// than the body).
	body := []string{
		"", `{"a": [1, 2.50, null], "n": 9007199254740993}`, `[`, `{} {}`, "a=1&b=%20&a=2", "a=%",
		"--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--B--\r\n", "\x00\x00\x00\x00\x03\x0a\x01a", "\x01\x00\x00\x00\x00", "\x00\x00\x00\x00\x09",
	}[r.IntN(10)]
	// Envoy sends one of the two fields (pack_as_bytes); half of the requests have
	// each.
	http.Body, http.RawBody = body, nil
	if r.IntN(2) == 0 {
		http.Body, http.RawBody = "", []byte(body)
	}
	http.Headers = headers
	if r.IntN(4) == 0 {
		http.Headers, http.HeaderMap = nil, RawHeaders()
		for name, value := range headers {
			http.HeaderMap.Headers = append(http.HeaderMap.Headers, RawHeaders(name, value).Headers...)
		}
	}
}

// RandomWire is a random request, mostly one that the lazy decoder reads. Equal seeds
// make equal requests, so a failure is repeated by its seed.
func RandomWire(t testing.TB, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 3))
	request := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{}}
	Fill(r, request.Attributes.ProtoReflect(), 0)
	MakePlausible(r, request.Attributes)
	// Raw headers and metadata mostly lead to the full decode; with all of them present
	// the lazy decoder would hardly be tested.
	if http := request.GetAttributes().GetRequest().GetHttp(); http != nil && r.IntN(5) > 0 {
		http.HeaderMap = nil
	}
	if r.IntN(3) > 0 {
		request.Attributes.MetadataContext, request.Attributes.RouteMetadataContext = nil, nil
	}
	if http := request.GetAttributes().GetRequest().GetHttp(); http != nil && r.IntN(2) == 0 {
		http.HeaderMap = nil
	}
	// Deterministic, so that a seed makes the same bytes each time.
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// HealthService describes the gRPC service grpc.health.v1.Health.
func HealthService() *descriptorpb.FileDescriptorSet {
	return &descriptorpb.FileDescriptorSet{
		File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(healthpb.File_grpc_health_v1_health_proto)},
	}
}

// Seeds are where fuzz tests begin: the requests of testdata, the requests of a real
// Envoy, and random ones. They are always in the same order.
func Seeds(f testing.TB) []*authv3.CheckRequest {
	var files []string
	for _, folder := range []string{"testdata", "../testdata", "../extauthz/testdata"} {
		found, err := filepath.Glob(folder + "/*.txtar")
		if err != nil {
			f.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		f.Fatal("no files in testdata")
	}
	var out []*authv3.CheckRequest
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		_, after, _ := strings.Cut(string(content), "-- request.json --\n")
		text, _, _ := strings.Cut(after, "\n-- ")
		request := &authv3.CheckRequest{}
		if err := protojson.Unmarshal([]byte(text), request); err != nil {
			f.Fatalf("%s: %v", file, err)
		}
		out = append(out, request)
	}
	recorded := Envoy(f)
	for _, name := range slices.Sorted(maps.Keys(recorded)) {
		request := &authv3.CheckRequest{}
		if err := proto.Unmarshal(recorded[name], request); err != nil {
			f.Fatalf("%s: %v", name, err)
		}
		out = append(out, request)
	}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		request := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{}}
		Fill(r, request.Attributes.ProtoReflect(), 0)
		MakePlausible(r, request.Attributes)
		out = append(out, request)
	}
	// A size that is not known is -1 by attribute_context.proto.
	unknown := Istio()
	unknown.Attributes.Request.Http.Size = -1
	return append(out, Istio(), unknown)
}

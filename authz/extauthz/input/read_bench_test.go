package input_test

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/input"
)

// benchRequests are the usual request, with the claims of a token, and the same one as Envoy
// sends it with encode_raw_headers.
func benchRequests(b *testing.B) map[string][]byte {
	b.Helper()
	claims, err := structpb.NewStruct(map[string]any{"payload": map[string]any{
		"sub": "alice", "iss": "https://issuer.example", "roles": []any{"clerk", "admin"}, "exp": 1800000000.0, "nested": map[string]any{"a": true},
	}})
	if err != nil {
		b.Fatal(err)
	}
	request := checktest.Istio()
	request.Attributes.MetadataContext = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.filters.http.jwt_authn": claims}}
	raw := proto.Clone(request).(*authv3.CheckRequest)
	http := raw.Attributes.Request.Http
	http.HeaderMap = &corev3.HeaderMap{}
	for name, value := range http.Headers {
		http.HeaderMap.Headers = append(http.HeaderMap.Headers, &corev3.HeaderValue{Key: name, RawValue: []byte(value)})
	}
	http.Headers = nil
	out := make(map[string][]byte)
	for name, request := range map[string]*authv3.CheckRequest{"lazy": request, "raw headers": raw} {
		if out[name], err = proto.Marshal(request); err != nil {
			b.Fatal(err)
		}
	}
	return out
}

// BenchmarkRead measures what it costs to read a request, by the lazy decoder and where that
// falls back, and to make the whole input document of it.
func BenchmarkRead(b *testing.B) {
	for name, wire := range benchRequests(b) {
		reader := &input.Reader{}
		b.Run("facts/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := reader.Read(wire); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("document/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				q, _, err := reader.Read(wire)
				if err == nil {
					_, err = q.Source(nil)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPart measures what it costs to ask a request for what stands at a path.
func BenchmarkPart(b *testing.B) {
	wire := benchRequests(b)["lazy"]
	q, _, err := reader().Read(wire)
	if err != nil {
		b.Fatal(err)
	}
	parts, err := q.Parts(nil)
	if err != nil {
		b.Fatal(err)
	}
	for name, path := range map[string][]any{
		"header":      {"attributes", "request", "http", "headers", "authorization"},
		"all headers": {"attributes", "request", "http", "headers"},
		"claim":       {"attributes", "metadataContext", "filterMetadata", "envoy.filters.http.jwt_authn", "payload", "sub"},
		"all claims":  {"attributes", "metadataContext", "filterMetadata", "envoy.filters.http.jwt_authn", "payload"},
		"segment":     {"parsed_path", 1},
		"address":     {"attributes", "source", "address"},
	} {
		b.Run(name, func(b *testing.B) {
			at := pathTo(path)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parts.At(at); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

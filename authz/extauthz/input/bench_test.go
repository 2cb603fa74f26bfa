package input_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/input"
)

// benchToken is a token of 800 bytes.
func benchToken() string {
	part := base64.RawURLEncoding.EncodeToString
	signed := part([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + part([]byte(
		`{"iss":"i","aud":"shop","sub":"user-1","roles":["clerk"],"tenant":"t","exp":1800000000,"scope":"`+strings.Repeat("x", 450)+`"}`))
	mac := hmac.New(sha256.New, []byte("secret"))
	mac.Write([]byte(signed))
	return signed + "." + part(mac.Sum(nil))
}

// BenchmarkKey measures what a decision that is cached costs beside the look-up: the key of
// a request that came before, and its digest.
func BenchmarkKey(b *testing.B) {
	modules := map[string]string{
		"text": `allow if { http.method == "GET"; startswith(http.path, "/api/") }`,
		"decoded": `allow if {
			[_, claims, _] := io.jwt.decode(substring(http.headers.authorization, 7, -1))
			claims.sub in data.users
			input.parsed_path[0] == "api"
		}`,
		"verified": `allow if {
			some role in claims.roles
			http.method == data.methods[role]
		}
		claims := payload if {
			startswith(http.headers.authorization, "Bearer ")
			[valid, _, payload] := io.jwt.decode_verify(
				substring(http.headers.authorization, 7, -1), {"secret": "secret", "alg": "HS256", "iss": "i", "aud": "shop"})
			valid
		}`,
	}
	data, err := structpb.NewStruct(map[string]any{"users": []any{"user-1"}, "methods": map[string]any{"clerk": "GET"}})
	if err != nil {
		b.Fatal(err)
	}
	request := checktest.Istio()
	request.Attributes.Request.Http.Headers["authorization"] = "Bearer " + benchToken()
	wire, err := proto.Marshal(request)
	if err != nil {
		b.Fatal(err)
	}
	_, check, err := (&input.Reader{}).Read(wire)
	if err != nil {
		b.Fatal(err)
	}
	for name, module := range modules {
		policy, err := authz.Compile(b.Context(), &adminpb.Policy{
			Modules: map[string]string{"m.rego": "package p\nimport input.attributes.request.http\n" + module}, Data: data,
			Rules: []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{Path: "p/allow"}}}},
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			now, buffer, ok := time.Unix(1_700_000_000, 0), make([]byte, 0, 4096), false
			b.ReportAllocs()
			for b.Loop() {
				buffer, ok = check.Key(b.Context(), policy.Reads(), now, buffer[:0])
				_ = sha256.Sum256(buffer)
			}
			if !ok {
				b.Error("there is no key")
			}
		})
	}
}

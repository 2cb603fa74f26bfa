package main

import (
	"bytes"
	"crypto"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"
)

func newTestTraffic(t *testing.T, kind trafficKind, a algorithm) *traffic {
	t.Helper()
	k, err := newKeys()
	if err != nil {
		t.Fatal(err)
	}
	out, err := newTraffic(kind, policySpec{Algorithm: a, Verifies: true}, k)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func decode(t *testing.T, content []byte) *authv3.AttributeContext_HttpRequest {
	t.Helper()
	r := &authv3.CheckRequest{}
	if err := proto.Unmarshal(content, r); err != nil {
		t.Fatalf("a request does not unmarshal: %v", err)
	}
	// Nothing is unknown, twice or empty: then it is as long as any encoder makes it.
	if proto.Size(r) != len(content) {
		t.Fatalf("a request has %d bytes; encoded again it has %d", len(content), proto.Size(r))
	}
	a := r.GetAttributes()
	if a.GetSource().GetPrincipal() == "" || a.GetSource().GetAddress().GetSocketAddress().GetPortValue() == 0 ||
		a.GetDestination().GetAddress().GetSocketAddress().GetAddress() == "" || a.GetMetadataContext() == nil {
		t.Fatalf("a request lacks what Istio sends: %v", r)
	}
	if age := time.Since(a.GetRequest().GetTime().AsTime()); age < -time.Minute || age > time.Minute {
		t.Fatalf("a request is from %v ago", age)
	}
	return a.GetRequest().GetHttp()
}

func TestTraffic(t *testing.T) {
	for _, kind := range trafficKinds {
		for _, a := range []algorithm{hs256, rs256} {
			t.Run(string(kind)+"/"+string(a), func(t *testing.T) {
				t.Parallel()
				traffic := newTestTraffic(t, kind, a)
				stream := traffic.newStream(1)
				paths, tokens, ids := map[string]bool{}, map[string]bool{}, map[string]bool{}
				const n = 3000
				for range n {
					http := decode(t, stream.next(nil))
					checkHTTP(t, http)
					if kind == rest && http.Body == "" && http.Size != -1 {
						t.Fatalf("a request without a body has the size %d", http.Size)
					}
					bearer := strings.TrimPrefix(http.Headers["authorization"], "Bearer ")
					verifies := kind != unique || a == hs256 || !tokens[bearer]
					if verifies && len(tokens) < 300 {
						verify(t, traffic, bearer)
					}
					paths[http.Path], tokens[bearer], ids[http.Headers["x-request-id"]+http.Headers["traceparent"]+http.Id] = true, true, true
				}
				if len(ids) != n {
					t.Errorf("%d requests have %d IDs", n, len(ids))
				}
				if kind == unique && (len(paths) != n || len(tokens) != n) {
					t.Errorf("%d requests have %d paths and %d tokens", n, len(paths), len(tokens))
				}
				if kind == rest && (len(paths) != n || len(tokens) > userCount+2*n/renewal || len(tokens) < n/renewal) {
					t.Errorf("%d requests have %d paths and %d tokens", n, len(paths), len(tokens))
				}
				if kind == zipf && (len(paths) > pathCount || len(tokens) > userCount || len(paths) < pathCount/4) {
					t.Errorf("%d requests have %d paths and %d tokens", n, len(paths), len(tokens))
				}
			})
		}
	}
}

// TestClaims: with the policy claims, Envoy sends the claims of a token, in an order that
// changes with each message.
func TestClaims(t *testing.T) {
	k, err := newKeys()
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPolicy("claims", k)
	if err != nil {
		t.Fatal(err)
	}
	traffic, err := newTraffic(zipf, p, k)
	if err != nil {
		t.Fatal(err)
	}
	stream := traffic.newStream(1)
	orders := map[string]bool{}
	for range 200 {
		content := stream.next(nil)
		token := strings.TrimPrefix(decode(t, content).Headers["authorization"], "Bearer ")
		says, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := json.Unmarshal(says, &want); err != nil {
			t.Fatal(err)
		}
		delete(want, "jti")
		r := &authv3.CheckRequest{}
		if err := proto.Unmarshal(content, r); err != nil {
			t.Fatal(err)
		}
		verified := r.GetAttributes().GetMetadataContext().GetFilterMetadata()["envoy.filters.http.jwt_authn"]
		got := verified.GetFields()["payload"].GetStructValue().AsMap()
		delete(got, "jti")
		delete(got, "scope") // padded in the token
		delete(want, "scope")
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("the metadata say %v, the token %v", got, want)
		}
		orders[orderOf(content, "sub", "roles", "exp", "iss", "tenant")] = true
	}
	if len(orders) < 20 {
		t.Errorf("200 requests have their claims in %d orders", len(orders))
	}
}

// orderOf returns the names in the order in which they last occur.
func orderOf(content []byte, names ...string) string {
	slices.SortFunc(names, func(a, b string) int {
		return bytes.LastIndex(content, []byte(a)) - bytes.LastIndex(content, []byte(b))
	})
	return strings.Join(names, " ")
}

func checkHTTP(t *testing.T, http *authv3.AttributeContext_HttpRequest) {
	t.Helper()
	want := 15
	if http.Body != "" {
		want = 17
	}
	unknown := http.Body == "" && http.Size == -1
	if len(http.Headers) != want || http.Size != int64(len(http.Body)) && !unknown {
		t.Fatalf("%d headers, want %d; size %d for a body of %d", len(http.Headers), want, http.Size, len(http.Body))
	}
	if http.Headers[":path"] != http.Path || http.Headers[":method"] != http.Method || http.Headers[":authority"] != http.Host {
		t.Fatalf("the headers are not those of the request: %v", http)
	}
	if got := len(http.Headers["authorization"]); got < tokenSize || got > tokenSize+10 {
		t.Fatalf("authorization has %d bytes; want about %d", got, tokenSize)
	}
}

// verify checks a token by the plain reading of RFC 7515.
func verify(t *testing.T, traffic *traffic, bearer string) {
	t.Helper()
	parts := strings.Split(bearer, ".")
	if len(parts) != 3 {
		t.Fatalf("a token has %d parts", len(parts))
	}
	signed := []byte(parts[0] + "." + parts[1])
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || !json.Valid(payload) {
		t.Fatalf("a token's payload is no JSON (%v): %s", err, payload)
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	if traffic.algorithm == hs256 {
		mac := hmac.New(sha256.New, []byte(traffic.keys.secret))
		mac.Write(signed)
		if !hmac.Equal(mac.Sum(nil), signature) {
			t.Fatal("a token has a wrong signature")
		}
		return
	}
	digest := sha256.Sum256(signed)
	if err := rsa.VerifyPKCS1v15(&traffic.keys.rsa.PublicKey, crypto.SHA256, digest[:], signature); err != nil {
		t.Fatal(err)
	}
}

// TestStreamsShareNothing: two senders must not send the same unique request.
func TestStreamsShareNothing(t *testing.T) {
	traffic := newTestTraffic(t, unique, hs256)
	a, b := traffic.newStream(1), traffic.newStream(2)
	seen := map[string]bool{}
	for range 500 {
		for _, s := range []*stream{a, b} {
			http := decode(t, s.next(nil))
			if key := http.Path + http.Headers["authorization"]; seen[key] {
				t.Fatalf("%s comes twice", http.Path)
			} else {
				seen[key] = true
			}
		}
	}
}

// TestTokensRotate: with rest, a user keeps a new token until it gets another, also where
// there are only some signed ones.
func TestTokensRotate(t *testing.T) {
	for _, a := range []algorithm{hs256, rs256} {
		traffic := newTestTraffic(t, rest, a)
		stream, last, changes := traffic.newStream(1), "", 0
		tokens := map[string]bool{}
		for range 20_000 {
			u, _, _ := stream.pick()
			if u.xfcc != traffic.users[0].xfcc {
				continue
			}
			if token := string(u.token.text); token != last {
				last, changes = token, changes+1
			}
			tokens[last] = true
		}
		if changes < 50 || changes > 500 {
			t.Errorf("%s: the most frequent user changed its token %d times in some 3,000 requests, want about %d", a, changes, 3000/renewal)
		}
		if a == rs256 && len(tokens) != signedTokens {
			t.Errorf("the most frequent user had %d tokens of RS256, want %d", len(tokens), signedTokens)
		}
		for token := range tokens {
			payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
			if err != nil || !bytes.Contains(payload, []byte(`"sub":"`+userName(0)+`"`)) {
				t.Errorf("%s: a token of %s has the payload %s (%v)", a, userName(0), payload, err)
			}
		}
	}
}

func BenchmarkNext(b *testing.B) {
	k, err := newKeys()
	if err != nil {
		b.Fatal(err)
	}
	t, err := newTraffic(zipf, policySpec{Algorithm: hs256}, k)
	if err != nil {
		b.Fatal(err)
	}
	s := t.newStream(1)
	var request []byte
	b.ReportAllocs()
	for b.Loop() {
		request = s.next(request[:0])
	}
}

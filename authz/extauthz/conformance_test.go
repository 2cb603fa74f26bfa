package extauthz_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
	"understudy/cmd/testkit"
)

const (
	conformancePolicies = 300
	conformanceRequests = 20 // for each policy
)

// TestConformance decides random requests by random policies, through a sidecar and
// the server, and by a plain reading of the specification: descriptors make the
// document, OPA with its defaults the value, a table the response. The responses
// are the same as a whole.
func TestConformance(t *testing.T) {
	count := testkit.RaceCases(testkit.Cases(conformancePolicies))
	policies := make(map[authz.PolicyID]*adminpb.Policy)
	for seed := range uint64(count) {
		policies[conformanceID(seed)] = seededPolicy(t, seed)
	}
	s := servertest.New(t, servertest.Sidecar(t, policies))
	kinds := make(map[string]int) // :: kind of answer → how many there were
	for seed := range uint64(count) {
		id := conformanceID(seed)
		plain := newPlainPolicy(t, policies[id])
		for n := range uint64(conformanceRequests) {
			request := seededRequest(t, seed, n)
			request.Attributes.ContextExtensions["policy"] = string(id)
			kinds[conform(t, s, plain, request)]++
			if t.Failed() {
				t.Fatalf("seed %d, request %d:\n%s\n%s", seed, n, policyText(policies[id]), request)
			}
		}
	}
	t.Log(kinds)
	for _, kind := range []string{
		"0", "0 with a response", "0 of a chain", "7", "7 with a response", string(authz.FailureRequest),
		string(authz.FailureUndefined), string(authz.FailureError), string(authz.FailureType),
	} {
		if kinds[kind] < count*conformanceRequests/200 {
			t.Errorf("only %d answers were of the kind %s: the policies do not reach it", kinds[kind], kind)
		}
	}
}

// FuzzConformance looks for a seed of a policy and a request that are answered in
// another way than the specification has it.
func FuzzConformance(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed+1_000_000, seed)
	}
	f.Fuzz(func(t *testing.T, policySeed, requestSeed uint64) {
		policy, request := seededPolicy(t, policySeed), seededRequest(t, policySeed, requestSeed)
		compiled, err := authz.Compile(context.Background(), policy)
		if err != nil {
			t.Fatalf("%v\n%s", err, policyText(policy))
		}
		conform(t, servertest.New(t, servertest.Alone(compiled)), newPlainPolicy(t, policy), request)
		if t.Failed() {
			t.Fatalf("%s\n%s", policyText(policy), request)
		}
	})
}

// conform compares the answers to one request, and returns of what kind they are. It
// asks by a message, and twice by the bytes of one: the lazy decoder reads
// them, and a decision may come from the cache.
func conform(t *testing.T, s *extauthz.Server, plain plainPolicy, request *authv3.CheckRequest) (kind string) {
	t.Helper()
	document, bad := checktest.Read(t, request)
	results := plain.decide(document, !plain.reaches(bad))
	want := plainResponse(results)
	delete(want.DynamicMetadata.Fields, "decision_id") // a policy cannot forge it
	last := results[len(results)-1]
	for _, got := range []*authv3.CheckResponse{checkWire(t, s, request), check(t, s, request), checkWire(t, s, request)} {
		compareAnswer(t, want, got, last)
	}
	switch {
	case last.failure != "":
		return string(last.failure)
	case last.allowed && len(results) > 1:
		return "0 of a chain"
	case want.HttpResponse != nil:
		return fmt.Sprint(want.Status.Code, " with a response")
	}
	return fmt.Sprint(want.Status.Code)
}

func compareAnswer(t *testing.T, want, got *authv3.CheckResponse, last plainResult) {
	t.Helper()
	if id := got.GetDynamicMetadata().GetFields()["decision_id"].GetStringValue(); !servertest.UUID.MatchString(id) {
		t.Errorf("decision_id %q is no UUID", id)
		return
	}
	delete(got.DynamicMetadata.Fields, "decision_id")
	if last.failure != "" {
		reason := got.DynamicMetadata.Fields["reason"].GetStringValue()
		checkReason(t, reason, last.field)
		delete(got.DynamicMetadata.Fields, "reason")
		if last.failure == authz.FailureRequest {
			want.GetDeniedResponse().Body = "request_parse_error: " + reason
		}
	}
	if !proto.Equal(want, got) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got, protocmp.Transform()))
	}
}

// checkWire asks by bytes, as the network does.
func checkWire(t *testing.T, s *extauthz.Server, request *authv3.CheckRequest) *authv3.CheckResponse {
	t.Helper()
	wire, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.CheckWire(context.Background(), wire)
	if err != nil {
		t.Fatalf("CheckWire: %v", err)
	}
	response := &authv3.CheckResponse{}
	if err := proto.Unmarshal(out, response); err != nil {
		t.Fatal(err)
	}
	return response
}

// checkReason holds the reason of a failure to its rules: it is there, it names the
// field that is wrong, and it quotes nothing of the request.
func checkReason(t *testing.T, reason, field string) {
	t.Helper()
	if reason == "" || !strings.Contains(reason, field) {
		t.Errorf("the reason %q does not name the field %s", reason, field)
	}
	if strings.Contains(strings.ToLower(reason), secretText) || strings.Contains(reason, secretNumber) {
		t.Errorf("the reason %q quotes the request", reason)
	}
}

func conformanceID(seed uint64) authz.PolicyID { return authz.PolicyID(fmt.Sprintf("policy-%d", seed)) }

func seededPolicy(t testing.TB, seed uint64) *adminpb.Policy {
	t.Helper()
	w := &policyWriter{rand.New(rand.NewPCG(seed, 3))}
	return w.policy(t)
}

func policyText(p *adminpb.Policy) string {
	var out strings.Builder
	for file, text := range p.Modules {
		fmt.Fprintf(&out, "-- %s --\n%s\n", file, strings.ReplaceAll(text, prelude, ""))
	}
	return out.String()
}

// What a request says and no reason may quote.
const (
	secretText   = "s3cr3t"
	secretNumber = "777"
)

// seededRequest is a random request that most policies find something in. Few are
// such as do not parse.
func seededRequest(t *testing.T, policySeed, seed uint64) *authv3.CheckRequest {
	t.Helper()
	r := rand.New(rand.NewPCG(policySeed<<20+seed, 4))
	request := callersRequest(r)
	for range r.IntN(12) {
		if _, ok := checktest.Document(t, request); ok {
			break
		}
		request = callersRequest(r)
	}
	return request
}

// callersRequest is a random request that often identifies the caller.
func callersRequest(r *rand.Rand) *authv3.CheckRequest {
	a := &authv3.AttributeContext{}
	checktest.Fill(r, a.ProtoReflect(), 0)
	if r.IntN(5) > 0 && a.GetRequest().GetHttp() == nil {
		a.Request = &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Host: "shop.example"}}
	}
	checktest.MakePlausible(r, a)
	if a.ContextExtensions == nil {
		a.ContextExtensions = map[string]string{}
	}
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	if r.IntN(3) > 0 {
		a.Source = &authv3.AttributeContext_Peer{Principal: pick("spiffe://shop/alice", "spiffe://shop/bob")}
	}
	if r.IntN(4) > 0 {
		addIdentity(a, pick)
	}
	return &authv3.CheckRequest{Attributes: a}
}

// addIdentity adds what identifies the caller: headers, a token, what an earlier filter
// found out.
func addIdentity(a *authv3.AttributeContext, pick func(...string) string) {
	headers := map[string]string{
		"x-user":  pick("alice", "alice", "bob", "s", "", secretText, "a\nb"),
		"x-limit": pick("5", secretNumber, "403", "x"),
		"authorization": "Bearer " + token(pick(
			`{"sub": "alice", "exp": 1800000000}`, `{"sub": "bob", "exp": 1.6e9}`, `{"sub": "`+secretText+`"}`, `[]`, `{`,
		)),
	}
	a.MetadataContext = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"jwt": {Fields: map[string]*structpb.Value{
		"sub": structpb.NewStringValue(pick("alice", "bob")),
		"n":   structpb.NewNumberValue(map[string]float64{"": 1e6, "a": 0.1, "b": 1e21, "c": 12}[pick("", "a", "b", "c")]),
		"roles": structpb.NewListValue(&structpb.ListValue{
			Values: []*structpb.Value{structpb.NewStringValue(pick("admin", "reader"))},
		}),
	}}}}
	http := a.GetRequest().GetHttp()
	if http.GetHeaderMap() != nil {
		for _, name := range []string{"x-user", "x-limit", "authorization"} {
			http.HeaderMap.Headers = append(http.HeaderMap.Headers, checktest.RawHeaders(name, headers[name]).Headers...)
		}
		return
	}
	if http.GetHeaders() != nil {
		for name, value := range headers {
			http.Headers[name] = value
		}
	}
}

func token(claims string) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"none"}`)) + "." + part([]byte(claims)) + "."
}

package input_test

import (
	"math/rand/v2"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/authz/extauthz/checktest"
	"understudy/cmd/testkit"
)

// TestDifferential compares the input document with a plain reading of its
// specification, which goes through descriptors, for random requests. The plain
// reading has the fields that Envoy's protos have: a new one shows here.
func TestDifferential(t *testing.T) {
	for seed := range uint64(testkit.Cases(3000)) {
		r := rand.New(rand.NewPCG(seed, 1))
		request := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{}}
		checktest.Fill(r, request.Attributes.ProtoReflect(), 0)
		checktest.MakePlausible(r, request.Attributes)
		got, err := document(t, request)
		want, ok := checktest.Document(t, request)
		if (err == nil) != ok {
			t.Fatalf("seed %d: error %v, the plain reading parses: %v\n%v", seed, err, ok, request.GetAttributes().GetRequest())
		}
		if err != nil {
			continue
		}
		if diff := checktest.Difference(want, got); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

// document returns the input document of a decoded CheckRequest, or why there is none.
func document(t testing.TB, request *authv3.CheckRequest) (any, error) {
	t.Helper()
	q, _, err := reader().Decoded(request)
	if err != nil {
		return nil, err
	}
	made, err := q.Source(nil)
	if err != nil {
		return nil, err
	}
	return documentOf(t, made), nil
}

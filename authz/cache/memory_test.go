package cache_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/extauthz/checktest"
)

// echoes repeat a text of the caller in each decision, in several ways.
var echoes = map[string]string{
	"a header": `allow := {"allowed": true, "headers": {"x-authenticated-user": user}}`,
	"a body":   `allow := {"allowed": false, "body": sprintf("%s may not", [user])}`,
	"a label":  `allow := {"allowed": true, "labels": {"user": substring(user, 0, 60)}, "headers": {"x-plan": substring(user, 0, 5)}}`,
	"metadata": `allow := {"allowed": true, "dynamic_metadata": {"user": user, "parts": split(user, "-")}}`,
}

// TestDistinctDecisionsStayWithinTheirBytes: a caller whose every request has a decision of its own
// cannot make a policy take more memory than its cache may have.
func TestDistinctDecisionsStayWithinTheirBytes(t *testing.T) {
	size, lengths := 2048, []int{6, 100, 1700, 3500}
	if testing.Short() {
		size, lengths = 512, []int{6, 3500}
	}
	for name, rule := range echoes {
		for _, bytes := range lengths {
			t.Run(fmt.Sprintf("%s of %d bytes", name, bytes), func(t *testing.T) {
				compiled, err := authz.Compile(t.Context(), &adminpb.Policy{
					Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
					Modules: map[string]string{"a.rego": "package envoy.authz\nuser := input.attributes.request.http.headers[\"x-user\"]\n" + rule + "\n"},
				})
				if err != nil {
					t.Fatal(err)
				}
				cached := cache.NewPolicy(compiled)
				if err := cached.SetSize(size); err != nil {
					t.Fatal(err)
				}
				padding := strings.Repeat("padding ", 1000)
				decide := func(user string) {
					wire, err := proto.Marshal(checktest.HTTP(&authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/", Headers: map[string]string{"x-user": user, "x-other": padding}}))
					if err != nil {
						t.Fatal(err)
					}
					d := cached.Decide(t.Context(), readAt(t, wire), authz.Conditions{})
					if d.Failure != "" {
						t.Fatalf("the decision fails: %s", d.Reason)
					}
					if r := d.Rendering(); r != nil && r.Load() == nil {
						r.Store(fmt.Sprint(d.Headers, d.Body, d.Metadata)) // as a front does
					}
				}
				decide("first")
				before := liveHeap()
				for i := range 3 * size {
					decide(fmt.Sprintf("%06d", i) + strings.Repeat("-padding", bytes/8))
				}
				took := liveHeap() - before
				t.Logf("%d KiB", took>>10)
				if took > size*cache.BytesPerDecision {
					t.Errorf("the cache takes %d KiB, more than its %d", took>>10, size*cache.BytesPerDecision>>10)
				}
				runtime.KeepAlive(cached)
			})
		}
	}
}

// liveHeap is how much memory is reachable, in bytes.
func liveHeap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // which ends what finalizers and pools have kept
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

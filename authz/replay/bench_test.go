package replay_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
	"understudy/authz/replay"
)

// rbac returns the benchmark's RBAC policy, and a candidate that is a little stricter.
func rbac(t testing.TB) (live, candidate *adminpb.Policy) {
	t.Helper()
	module, err := os.ReadFile("../../cmd/authzbench/policies/rbac.rego")
	if err != nil {
		t.Fatal(err)
	}
	data, err := structpb.NewStruct(map[string]any{"permissions": map[string]any{
		"viewer": []any{map[string]any{"resource": "orders", "methods": []any{"GET"}}, map[string]any{"resource": "users", "methods": []any{"GET"}}},
		"admin":  []any{map[string]any{"resource": "orders", "methods": []any{"GET", "POST"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	of := func(text string) *adminpb.Policy {
		p := policyOf("")
		p.Modules["auth.rego"], p.Data = text, data
		return p
	}
	stricter := strings.Replace(string(module), "in permission.methods", "in permission.methods\n\tnot endswith(http.path, \"7\")", 1)
	return of(string(module)), of(stricter)
}

// traffic returns entries of 2 KB: of a thousand users, on paths that are all distinct.
func traffic(t testing.TB, n int) string {
	var out strings.Builder
	headers := map[string]any{}
	for i := range 16 {
		headers[fmt.Sprintf("x-header-%d", i)] = strings.Repeat("v", 64)
	}
	for i := range n {
		claims := fmt.Sprintf(`{"sub":"user-%d","exp":4000000000,"roles":[%q]}`, i%1000, []string{"viewer", "admin", "other"}[i%3])
		headers["authorization"] = "Bearer e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2lnbmF0dXJl"
		path := fmt.Sprintf("/api/v1/%s/%012d", []string{"orders", "users", "stock"}[i%7%3], i)
		out.WriteString(entryOf(t, i, envoy([]string{"GET", "POST"}[i%2], path, headers), false, nil) + "\n")
	}
	return out.String()
}

// BenchmarkRBAC replays b.N entries; on one processor with -cpu 1.
func BenchmarkRBAC(b *testing.B) {
	live, candidate := rbac(b)
	const once = 100_000
	text := traffic(b, min(b.N, once))
	b.SetBytes(int64(len(text) / min(b.N, once)))
	b.ReportAllocs()
	b.ResetTimer()
	file := replay.File{Name: "log", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
	o := replay.Options{Live: live, Candidate: candidate}
	for range max(1, b.N/once) {
		o.Files = append(o.Files, file)
	}
	result := run(b, o)
	b.ReportMetric(float64(result.Compared)/b.Elapsed().Seconds(), "entries/s")
}

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
	"understudy/authz/background"
	"understudy/authz/replay"
)

// benchmarked are policies of the benchmark, and a rule of each that its candidate has in
// place of another, so that it is a little stricter.
var benchmarked = []struct {
	name, rule, stricter string
	data                 func() map[string]any
}{
	{"prefix", `"/api/v1/orders/")`, "\"/api/v1/orders/\")\n\tnot endswith(http.path, \"7\")", func() map[string]any { return nil }},
	{"rbac", "in permission.methods", "in permission.methods\n\tnot endswith(http.path, \"7\")", permissions},
	{"list", "in rule.methods", "in rule.methods\n\tnot endswith(http.path, \"7\")", accessList},
}

// permissions are those of each role.
func permissions() map[string]any {
	grant := func(resource string, methods ...any) any {
		return map[string]any{"resource": resource, "methods": methods}
	}
	return map[string]any{"permissions": map[string]any{
		"viewer": []any{grant("orders", "GET"), grant("users", "GET")},
		"admin":  []any{grant("orders", "GET", "POST")},
	}}
}

// accessList is 200 rules, most of them of roles that nobody has, and 10,000 accounts.
func accessList() map[string]any {
	accounts, rules := map[string]any{}, []any{}
	for i := range 10_000 {
		accounts[fmt.Sprintf("user-%d", i)] = map[string]any{"suspended": i%50 == 49}
	}
	for i := range 200 {
		role := fmt.Sprintf("team-%03d", i)
		if i%8 == 0 {
			role = []string{"viewer", "admin"}[i/8%2]
		}
		rules = append(rules, map[string]any{"role": role, "resource": []string{"orders", "users", "stock"}[i/8%3], "methods": []any{"GET"}})
	}
	return map[string]any{"accounts": accounts, "rules": rules}
}

// benchmarkTraffic returns entries of 2 KB, in which no path and no token comes twice.
func benchmarkTraffic(t testing.TB, n int) string {
	var out strings.Builder
	headers := map[string]any{}
	for i := range 16 {
		headers[fmt.Sprintf("x-header-%d", i)] = strings.Repeat("v", 64)
	}
	for i := range n {
		claims := fmt.Sprintf(`{"sub":"user-%d","exp":4000000000,"roles":[%q],"jti":"%d"}`, i%1000, []string{"viewer", "admin", "other"}[i%3], i)
		headers["authorization"] = "Bearer e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2lnbmF0dXJl"
		path := fmt.Sprintf("/api/v1/%s/%012d", []string{"orders", "users", "stock"}[i%7%3], i)
		out.WriteString(entryOf(t, i, envoy([]string{"GET", "POST"}[i%2], path, headers), false, nil) + "\n")
	}
	return out.String()
}

// BenchmarkReplay replays b.N entries by a policy and a stricter one, with one worker. The
// entries are in memory, so that -benchtime 50000x is a good time. Entries of a second of
// processor time are the figure to trust next to other programs.
func BenchmarkReplay(b *testing.B) {
	for _, p := range benchmarked {
		b.Run(p.name, func(b *testing.B) {
			o := replay.Options{}
			o.Live, o.Candidate = policies(b, p.name, p.rule, p.stricter, p.data())
			text := benchmarkTraffic(b, b.N)
			o.Files = []replay.File{{Name: "log", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}}
			b.SetBytes(int64(len(text) / b.N))
			b.ReportAllocs()
			b.ResetTimer()
			began := background.ProcessorTime()
			result := run(b, o)
			b.ReportMetric(float64(result.Compared)/(background.ProcessorTime()-began).Seconds(), "entries/cpu-s")
		})
	}
}

// policies returns a policy of the benchmark with data, and one in which a rule is stricter.
func policies(b *testing.B, name, rule, stricter string, data map[string]any) (live, candidate *adminpb.Policy) {
	b.Helper()
	module, err := os.ReadFile("../../cmd/authzbench/policies/" + name + ".rego")
	if err != nil {
		b.Fatal(err)
	}
	document, err := structpb.NewStruct(data)
	if err != nil {
		b.Fatal(err)
	}
	of := func(text string) *adminpb.Policy {
		p := policyOf("")
		p.Modules["auth.rego"], p.Data = text, document
		return p
	}
	return of(string(module)), of(strings.Replace(string(module), rule, stricter, 1))
}

package sidecar

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// treasury is a policy of about 50 kB as they are in the world: routes with what they need,
// roles with what they may, and 500 users in the data. No two are equal.
func treasury(b testing.TB, name authz.PolicyName, version int) *adminpb.Policy {
	b.Helper()
	users := make(map[string]any)
	roles := []any{"viewer", "analyst", "approver", "auditor", "admin", "ops", "support"}
	for i := range 500 {
		users[fmt.Sprintf("u%04d", i)] = map[string]any{
			"tenant": fmt.Sprintf("tenant-%d", (i*7+version)%12), "roles": roles[i%5 : i%5+1+i%3], "active": i%20 != 0,
		}
	}
	permissions := make(map[string]any)
	var routes strings.Builder
	routes.WriteString("package treasury.routes\n\nimport rego.v1\n\n")
	for i, resource := range strings.Fields("payments accounts settings reports users limits audit transfers cards rates") {
		for _, role := range roles {
			held, _ := permissions[role.(string)].([]any)
			permissions[role.(string)] = append(held, resource+".read", fmt.Sprintf("%s.write%d", resource, i%3))
		}
		for _, method := range []string{"GET", "POST"} {
			fmt.Fprintf(&routes, "# %s of %s\nneed := \"%s.%s\" if {\n\tinput.attributes.request.http.method == %q\n\tinput.parsed_path[0] == \"v1\"\n"+
				"\tinput.parsed_path[1] == %q\n\tcount(input.parsed_path) == %d\n\tnot startswith(input.attributes.request.http.path, \"/v1/internal/%d\")\n}\n\n",
				method, resource, resource, strings.ToLower(method), method, resource, 2+i%2, i)
		}
	}
	data, err := structpb.NewStruct(map[string]any{"users": users, "permissions": permissions})
	if err != nil {
		b.Fatal(err)
	}
	return &adminpb.Policy{
		Name: string(name), Etag: fmt.Sprint(version), Rules: []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Data: data,
		Modules: map[string]string{
			"routes.rego": routes.String(),
			"authz.rego": fmt.Sprintf("package envoy.authz\n\nimport rego.v1\n\nimport data.treasury.routes\n\n# version %d\ndefault allow := false\n\n"+
				"user := data.users[input.attributes.request.http.headers[\"x-user\"]]\n\nallow if {\n\tuser.active\n\tsome role in user.roles\n"+
				"\troutes.need in data.permissions[role]\n\tlower(input.attributes.request.http.headers[\"x-tenant\"]) == user.tenant\n}\n", version),
		},
	}
}

// routing is a policy of about 39 kB that is mostly rules: 110 of them, and 300 tenants in the data.
func routing(b testing.TB, name authz.PolicyName, version int) *adminpb.Policy {
	b.Helper()
	tenants, roles := make(map[string]any), make(map[string]any)
	all := []any{"viewer", "editor", "admin", "support"}
	for i := range 300 {
		tenants[fmt.Sprintf("tenant-%03d", i)] = map[string]any{"plan": []any{"free", "team", "pro"}[(i+version)%3], "role": all[i%4]}
	}
	var rules strings.Builder
	fmt.Fprintf(&rules, "package envoy.authz\n\n# version %d\ndefault allow := false\n\nhttp := input.attributes.request.http\n\ntenant := data.tenants[http.headers[\"x-tenant\"]]\n\n", version)
	for i := range 110 {
		permission := fmt.Sprintf("resource-%03d.%s", i, []string{"read", "write"}[i%2])
		held, _ := roles[all[i%4].(string)].([]any)
		roles[all[i%4].(string)] = append(held, permission)
		fmt.Fprintf(&rules, "allow if {\n\thttp.method == %q\n\tinput.parsed_path[0] == \"v1\"\n\tinput.parsed_path[1] == \"resource-%03d\"\n\tcount(input.parsed_path) == %d\n"+
			"\ttenant.plan in {\"team\", \"pro\"}\n\t%q in data.roles[tenant.role]\n\tnot startswith(http.path, \"/v1/resource-%03d/internal\")\n}\n\n",
			[]string{"GET", "POST"}[i%2], i, 2+i%2, permission, i)
	}
	data, err := structpb.NewStruct(map[string]any{"tenants": tenants, "roles": roles})
	if err != nil {
		b.Fatal(err)
	}
	return &adminpb.Policy{
		Name: string(name), Etag: fmt.Sprint(version), Rules: []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Data: data, Modules: map[string]string{"authz.rego": rules.String()},
	}
}

// BenchmarkMemory is what a followed policy keeps in memory: its content, and what it was compiled to.
func BenchmarkMemory(b *testing.B) {
	b.Run("data", func(b *testing.B) { benchmarkMemory(b, treasury) })
	b.Run("rules", func(b *testing.B) { benchmarkMemory(b, routing) })
}

func benchmarkMemory(b *testing.B, policy func(testing.TB, authz.PolicyName, int) *adminpb.Policy) {
	const policies = 20
	s, stored := storing(b, policies, policy)
	for b.Loop() {
		before := live()
		snap := s.with(b.Context(), &snapshot{}, decoded(b, stored))
		// A sidecar loads everything again whenever its store comes back.
		snap = s.with(b.Context(), snap, decoded(b, stored))
		b.ReportMetric(float64(live()-before)/policies, "B/policy")
		for name, e := range snap.policies {
			if e.broken {
				b.Fatalf("%s does not compile: %v", name, e.failures)
			}
		}
	}
	for _, value := range stored {
		b.ReportMetric(float64(len(value)), "stored-B/policy")
	}
}

// storing returns a sidecar that follows nothing, and the records of some policies.
func storing(t testing.TB, policies int, policy func(testing.TB, authz.PolicyName, int) *adminpb.Policy) (*Sidecar, map[authz.PolicyName][]byte) {
	t.Helper()
	stored := make(map[authz.PolicyName][]byte)
	for i := range policies {
		name := authz.PolicyName(fmt.Sprintf("projects/p1/locations/l1/policies/p%d", i))
		value, err := proto.Marshal(policy(t, name, i))
		if err != nil {
			t.Fatal(err)
		}
		stored[name] = value
	}
	s, err := New(Config{Feed: nobody{}, Scope: authz.Scope{Location: "projects/p1/locations/l1"}, Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	return s, stored
}

// decoded is an update as a store makes it.
func decoded(b testing.TB, stored map[authz.PolicyName][]byte) authz.Update {
	b.Helper()
	update := authz.Update{Policies: make(map[authz.PolicyName]authz.PolicyState)}
	for name, value := range stored {
		p := &adminpb.Policy{}
		if err := proto.Unmarshal(value, p); err != nil {
			b.Fatal(err)
		}
		update.Policies[name] = authz.PolicyState{Policy: p}
	}
	return update
}

// live is what is in use of the heap.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryOfAPolicy: a policy that is mostly rules takes at most 20 times of what it is in the store.
func TestMemoryOfAPolicy(t *testing.T) {
	const policies = 10
	s, stored := storing(t, policies, routing)
	size := int64(0)
	for _, value := range stored {
		size += int64(len(value))
	}
	before := live()
	snap := s.with(t.Context(), &snapshot{}, decoded(t, stored))
	took := live() - before
	t.Logf("%d policies of %d bytes take %d", policies, size/policies, took/policies)
	if took > memoryPerByte*size {
		t.Errorf("policies of %d bytes take %d", size, took)
	}
	runtime.KeepAlive(snap)
}

// TestPoliciesThatMayNeedMoreMemory: what may not fit is said before it is compiled, with the numbers.
func TestPoliciesThatMayNeedMoreMemory(t *testing.T) {
	var log bytes.Buffer
	s, err := New(Config{
		Feed: nobody{}, Scope: authz.Scope{Location: "projects/p1/locations/l1"}, Node: "n", Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	update := authz.Update{Policies: map[authz.PolicyName]authz.PolicyState{web: {Policy: routing(t, web, 1)}, "gone": {}}}
	needs := memoryOf(update)
	for _, enough := range []uint64{needs, math.MaxInt64} {
		if s.warnOfMemory(update, enough); log.Len() > 0 {
			t.Errorf("with %d bytes: %s", enough, &log)
		}
	}
	s.warnOfMemory(update, needs-1)
	for _, want := range []string{"level=WARN", "--policies", "policies=2", fmt.Sprint("estimate=", needs), fmt.Sprint("limit=", needs-1)} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the warning has no %s: %s", want, &log)
		}
	}
}

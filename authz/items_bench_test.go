package authz_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// usersPolicy allows by the roles of users in data, of which there are n; those of the first changed ones have one more.
func usersPolicy(t testing.TB, n, changed int) *adminpb.Policy {
	t.Helper()
	users := make(map[string]any, n)
	for i := range n {
		roles := []any{"reader"}
		if i < changed {
			roles = append(roles, "writer")
		}
		users[fmt.Sprint("u", i)] = map[string]any{"roles": roles, "tenant": fmt.Sprint("t", i%12)}
	}
	data, err := structpb.NewStruct(map[string]any{"users": users, "perms": map[string]any{"reader": []any{"get"}, "writer": []any{"put"}}})
	if err != nil {
		t.Fatal(err)
	}
	return regoPolicy(`package envoy.authz

default allow := false

allow if input.need in perms

perms contains p if {
	some role in data.users[input.user].roles
	some p in data.perms[role]
}
`, data)
}

// rulesPolicy has n rules, each with a limit of its own.
func rulesPolicy(n, limit int) *adminpb.Policy {
	var text strings.Builder
	text.WriteString("package envoy.authz\n\ndefault allow := false\n")
	for i := range n {
		fmt.Fprintf(&text, "\nallow if {\n\tinput.user == \"u%d\"\n\tinput.n < %d\n}\n", i, limit)
	}
	return regoPolicy(text.String(), nil)
}

func regoPolicy(module string, data *structpb.Struct) *adminpb.Policy {
	return &adminpb.Policy{
		Modules: map[string]string{"policy.rego": module}, Data: data,
		Rules: []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
	}
}

// hostileChanges are changes of which there is as much as is examined.
func hostileChanges(t testing.TB) map[string][2]*adminpb.Policy {
	return map[string][2]*adminpb.Policy{
		"one of 500 rows":    {usersPolicy(t, 500, 0), usersPolicy(t, 500, 1)},
		"500 rows":           {usersPolicy(t, 500, 0), usersPolicy(t, 500, 500)},
		"4,096 rows":         {usersPolicy(t, 4096, 0), usersPolicy(t, 4096, 4096)},
		"100,000 rows":       {usersPolicy(t, 100_000, 0), usersPolicy(t, 100_000, 100_000)},
		"500 rules, limits":  {rulesPolicy(500, 10), rulesPolicy(500, 11)},
		"500 rules, new":     {rulesPolicy(0, 10), rulesPolicy(500, 11)},
		"2,000 rules, other": {rulesPolicy(2000, 10), rulesPolicy(2000, 11)},
	}
}

// BenchmarkItems is what it costs to find out in what two policies differ.
func BenchmarkItems(b *testing.B) {
	for name, sides := range hostileChanges(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := authz.Items(b.Context(), sides[0], sides[1]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkExamine is what it costs to find out what a request shows: of a request that needs an item, and of one
// that needs none.
func BenchmarkExamine(b *testing.B) {
	for name, sides := range hostileChanges(b) {
		judge := judgeOf(b, sides[0], sides[1])
		for of, line := range map[string]string{
			"needs it": `10:00 {"user": "u0", "need": "put", "n": 10}`, "needs none": `10:00 {"user": "u0", "need": "get", "n": 3}`,
		} {
			b.Run(name+"/"+of, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := judge.Examine(b.Context(), nil, itemRequest(b, line), nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

package authz_test

import (
	"fmt"
	"os"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// BenchmarkCompile compiles the benchmark's access list: 200 rules, and data of 10,000 accounts.
func BenchmarkCompile(b *testing.B) {
	module, err := os.ReadFile("../cmd/authzbench/policies/list.rego")
	if err != nil {
		b.Fatal(err)
	}
	accounts, rules := map[string]any{}, []any{}
	for i := range 10_000 {
		accounts[fmt.Sprintf("user-%05d", i)] = map[string]any{"suspended": i%50 == 49, "roles": []any{fmt.Sprintf("team-%03d", i%200)}}
	}
	for i := range 200 {
		rules = append(rules, map[string]any{"role": fmt.Sprintf("team-%03d", i), "resource": fmt.Sprint(i % 10), "method": "*"})
	}
	data, err := structpb.NewStruct(map[string]any{"accounts": accounts, "rules": rules})
	if err != nil {
		b.Fatal(err)
	}
	p := &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"list.rego": string(module)}, Data: data,
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := authz.Compile(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
}

package rego_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/cmd/testkit"
	"understudy/rego/change"
)

// word matches what a module is made of.
var word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*|[0-9.]+|"[^"]*"|[^\sA-Za-z0-9_"]`)

// edit returns a module with a small change at random: words or lines that change places, a line or a condition that
// goes, another constant, another name of a variable.
func edit(r *rand.Rand, module string) string {
	at := word.FindAllStringIndex(module, -1)
	pick := func() []int { return at[r.IntN(len(at))] }
	replace := func(span []int, text string) string { return module[:span[0]] + text + module[span[1]:] }
	switch r.IntN(6) {
	case 0: // two words of one kind change places
		x, y := pick(), pick()
		if x[0] > y[0] {
			x, y = y, x
		}
		if x[0] == y[0] {
			return module
		}
		return module[:x[0]] + module[y[0]:y[1]] + module[x[1]:y[0]] + module[x[0]:x[1]] + module[y[1]:]
	case 1: // two lines after that of the package
		lines := strings.Split(module, "\n")
		i, j := 1+r.IntN(len(lines)-1), 1+r.IntN(len(lines)-1)
		lines[i], lines[j] = lines[j], lines[i]
		return strings.Join(lines, "\n")
	case 2:
		lines := strings.Split(module, "\n")
		i := 1 + r.IntN(len(lines)-1)
		return strings.Join(slices.Delete(lines, i, i+1), "\n")
	case 3: // a condition goes, or changes places with the next one
		parts := strings.Split(module, "; ")
		i := r.IntN(len(parts))
		if i == 0 || i == len(parts)-1 {
			return module
		}
		if r.IntN(2) == 0 {
			return strings.Join(slices.Delete(parts, i, i+1), "; ")
		}
		parts[i], parts[i-1+2*r.IntN(2)] = parts[i-1+2*r.IntN(2)], parts[i]
		return strings.Join(parts, "; ")
	case 4:
		return replace(pick(), []string{"1", "2", "2.0", "9007199254740993", `"x"`, "true", "input", "data.c", "[]", "{}", "_"}[r.IntN(11)])
	default:
		span := pick()
		name := module[span[0]:span[1]]
		return regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`).ReplaceAllString(module, fmt.Sprint("w", r.IntN(1000)))
	}
}

// editData returns data in which one value at random is another one.
func editData(r *rand.Rand, value any) any {
	if r.IntN(4) == 0 {
		return []any{nil, 1, 2.5, "x", "1e0", []any{}, map[string]any{"a": 1}}[r.IntN(7)]
	}
	switch v := value.(type) {
	case map[string]any:
		if names := slices.Sorted(maps.Keys(v)); len(names) > 0 {
			out := maps.Clone(v)
			name := names[r.IntN(len(names))]
			out[name] = editData(r, v[name])
			return out
		}
	case []any:
		if len(v) > 0 {
			out := slices.Clone(v)
			i := r.IntN(len(v))
			out[i] = editData(r, v[i])
			return out
		}
	}
	return "other"
}

// version is a policy of the tests below.
type version struct {
	module string
	data   map[string]any
}

// edited returns a random policy, and a copy in which the module or the data is another one. It reports false if one of
// them is none, or if both are the same.
func edited(t *testing.T, seed uint64) (live, candidate version, ok bool) {
	r := rand.New(rand.NewPCG(seed, 19))
	live = version{[]func(uint64) string{formModule, randomModule}[seed%2](seed), formData}
	candidate = live
	if r.IntN(4) == 0 {
		data := maps.Clone(formData)
		name := slices.Sorted(maps.Keys(data))[r.IntN(len(data))]
		data[name] = editData(r, data[name])
		candidate.data = data
	} else if candidate.module = edit(r, live.module); candidate.module == live.module {
		return live, candidate, false
	}
	for _, v := range []version{live, candidate} {
		options := ast.CompileOpts{ParserOptions: ast.ParserOptions{RegoVersion: ast.RegoV1}}
		if _, err := ast.CompileModulesWithOpt(map[string]string{"p.rego": v.module}, options); err != nil {
			return live, candidate, false
		}
	}
	return live, candidate, true
}

// source returns a version as it is compared.
func (v version) source(t *testing.T) change.Source {
	data, err := structpb.NewStruct(v.data)
	if err != nil {
		t.Fatal(err)
	}
	return change.Source{Modules: map[string]string{"p.rego": v.module}, Data: data, Paths: []string{"p/allow"}}
}

// decider returns what OPA decides by a version: "error" if it does not.
func (v version) decider(t *testing.T) func(map[string]any) string {
	query := prepareOPA(t, map[string]string{"p.rego": v.module}, v.data, "p/allow")["p/allow"]
	return func(input map[string]any) string {
		out, panicked := unlessItPanics(query, input, time.Unix(epoch, 0))
		if panicked {
			return "error"
		}
		return out
	}
}

// TestPoliciesWithoutItemsDecideAlike: if a policy and an edited copy have no item, OPA decides no request by one of
// them otherwise than by the other. Else a report could say that nothing differs.
func TestPoliciesWithoutItemsDecideAlike(t *testing.T) {
	pairs, alike := 0, 0
	for seed := range uint64(testkit.Cases(8_000)) {
		live, candidate, ok := edited(t, seed)
		if !ok {
			continue
		}
		pairs++
		c, err := change.Compare(t.Context(), live.source(t), candidate.source(t))
		if err != nil {
			t.Fatal(err)
		}
		if !c.List.None() {
			continue
		}
		alike++
		decide, decideToo, r := live.decider(t), candidate.decider(t), rand.New(rand.NewPCG(seed, 20))
		for range 20 {
			input := []func(*rand.Rand) map[string]any{formInput, randomInput}[seed%2](r)
			x, y := decide(input), decideToo(input)
			if x == "error" || y == "error" {
				continue // which of several rules is evaluated first decides whether one of them ends the evaluation
			}
			if x != y {
				t.Fatalf("seed %d: no item, but %s and %s for %v\n%s\n%v\n---\n%s\n%v", seed, x, y, input, live.module, live.data, candidate.module, candidate.data)
			}
		}
	}
	t.Logf("%d pairs, %d of them without items", pairs, alike)
	if alike < pairs/50 {
		t.Errorf("only %d of %d pairs have no items", alike, pairs)
	}
}

package rego_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/test/cases"
	"github.com/open-policy-agent/opa/v1/test/cases/testdata"
	"github.com/open-policy-agent/opa/v1/util"

	"understudy/rego"
)

// TestCasesOfOPAAreObservedSoundly asks the policies of OPA's own test cases about inputs
// that differ from theirs at some places: two that are observed alike have one value, by
// plain OPA.
func TestCasesOfOPAAreObservedSoundly(t *testing.T) {
	tried, shared := 0, 0
	for _, c := range casesOfOPA(t) {
		path, ok := pathOfQuery(c.Query)
		if c.Input == nil || !ok {
			continue
		}
		document, ok := (*c.Input).(map[string]any)
		if !ok {
			continue
		}
		modules, data := map[string]string{}, map[string]any{}
		for i, text := range c.Modules {
			modules[string(rune('a'+i))+".rego"] = text
		}
		if c.Data != nil {
			data = *c.Data
		}
		ours, err := rego.Compile(context.Background(), rego.Source{Modules: modules, Data: data, Paths: []string{path}})
		if err != nil || !ours.Cacheable(path) {
			continue // such as for the network
		}
		tried++
		r := rand.New(rand.NewPCG(9, uint64(tried)))
		opa, pool, seen := prepareOPA(t, modules, data, path)[path], constantsIn(t, c), map[string]string{}
		for range 60 {
			now := time.Unix(1_700_000_000, 0)
			mutated := changed(r, document, pool, 1+r.IntN(2)).(map[string]any)
			in, err := rego.NewInput(mutated)
			if err != nil {
				continue
			}
			at := rego.ValidFrom(t.Context(), now)
			key := string(rego.AppendObserved(nil, ours.Reads(path).Observe(), in, &at))
			value := plainly(opa, mutated, now)
			other, found := seen[key]
			if found && other != value && at.Until > at.Now {
				t.Errorf("%s: %v is %s, and %s by the same key; the reads are %s", c.Note, mutated, value, other, ours.Reads(path))
			}
			if found {
				shared++
			}
			seen[key] = value
		}
	}
	if tried < 100 || shared < 1000 {
		t.Errorf("%d policies, %d inputs with the key of another", tried, shared)
	}
	t.Logf("%d policies, %d inputs with the key of another", tried, shared)
}

// casesOfOPA returns OPA's own test cases.
func casesOfOPA(t *testing.T) (out []cases.TestCase) {
	err := fs.WalkDir(testdata.V1, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := testdata.V1.ReadFile(path)
		if err != nil {
			return err
		}
		var set cases.Set
		if err := util.Unmarshal(text, &set); err != nil {
			return err
		}
		out = append(out, set.Cases...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// pathOfQuery returns the path of the rule that a query `data.a.b = x` asks for.
func pathOfQuery(query string) (string, bool) {
	rule, _, ok := strings.Cut(query, " = ")
	rule, data := strings.CutPrefix(rule, "data.")
	return strings.ReplaceAll(rule, ".", "/"), ok && data && !strings.ContainsAny(rule, "[]")
}

// constantsIn returns the constants of the policies, and some others.
func constantsIn(t *testing.T, c cases.TestCase) []any {
	out := []any{nil, true, false, json.Number("0"), json.Number("1"), "", "x", "a/b", []any{}, []any{"x"}, map[string]any{}}
	for _, text := range c.Modules {
		module, err := ast.ParseModule("", text)
		if err != nil {
			t.Fatal(err)
		}
		ast.WalkTerms(module, func(term *ast.Term) bool {
			if value, err := ast.JSON(term.Value); err == nil && term.IsGround() && len(out) < 60 {
				out = append(out, value)
				if s, ok := value.(string); ok {
					out = append(out, s+"x", "x"+s)
				}
			}
			return false
		})
	}
	return out
}

// changed returns a copy of a value in which something is another at so many places.
func changed(r *rand.Rand, value any, pool []any, places int) any {
	switch v := value.(type) {
	case map[string]any:
		v = maps.Clone(v)
		for range places {
			names := slices.Sorted(maps.Keys(v))
			if len(names) == 0 {
				break
			}
			if name := names[r.IntN(len(names))]; r.IntN(8) == 0 {
				delete(v, name)
			} else {
				v[name] = changed(r, v[name], pool, 1)
			}
		}
		return v
	case []any:
		if len(v) > 0 && r.IntN(4) > 0 {
			v = slices.Clone(v)
			i := r.IntN(len(v))
			v[i] = changed(r, v[i], pool, 1)
			return v[:len(v)-r.IntN(8)/7]
		}
	}
	return pool[r.IntN(len(pool))]
}

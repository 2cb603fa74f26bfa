package rego_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/test/cases"
	"github.com/open-policy-agent/opa/v1/test/cases/testdata"
	"github.com/open-policy-agent/opa/v1/util"
)

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

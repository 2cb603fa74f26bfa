package rego_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"understudy/rego"
)

// causesOf returns the causes of a module, one a line.
func causesOf(t *testing.T, file, module string) (out []string) {
	t.Helper()
	causes, err := rego.Causes(t.Context(), rego.Source{
		Modules: map[string]string{file: module}, Paths: []string{"envoy/authz/allow"},
		Data: map[string]any{"permissions": map[string]any{"reader": []any{map[string]any{"resource": "orders", "methods": []any{"GET"}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range causes {
		out = append(out, fmt.Sprintf("%d %s %s", c.Row, c.Kind, c.What))
		if c.File != file {
			t.Errorf("%+v is in another file than %s", c, file)
		}
	}
	return out
}

// TestCausesOfTheBenchmark: what is expensive about the policies that are measured.
func TestCausesOfTheBenchmark(t *testing.T) {
	const http, token = "input.attributes.request.http", "input.attributes.request.http.headers.authorization"
	for file, want := range map[string][]string{
		"prefix.rego": {
			"9 compared " + http + ".method", "10 compared " + http + ".path", "14 compared " + http + ".method",
			"15 compared " + http + ".path", "19 compared " + http + ".method", "21 compared " + http + ".path",
		},
		"claims.rego": {
			"10 clock_bound time.now_ns",
			`11 whole input.attributes.metadataContext.filterMetadata["envoy.filters.http.jwt_authn"].payload.roles`,
			"13 compared input.parsed_path[2]", "14 compared " + http + ".method",
		},
		"hs256.rego": {
			"10 compared " + http + ".method", "11 compared input.parsed_path[2]",
			"16 clock_bound io.jwt.decode_verify", "16 whole substring(" + token + ", 7, -1)",
		},
	} {
		text, err := os.ReadFile(filepath.Join("../cmd/authzbench/policies", file))
		if err != nil {
			t.Fatal(err)
		}
		if got := causesOf(t, file, string(text)); !slices.Equal(got, want) {
			t.Errorf("%s: got\n%q, want\n%q", file, got, want)
		}
	}
}

// TestCausesSayWhatKeepsDecisionsFromBeingCached, and agree with what is cached.
func TestCausesSayWhatKeepsDecisionsFromBeingCached(t *testing.T) {
	blocking := []rego.CauseKind{rego.CauseImpure, rego.CauseClockUsed, rego.CauseNotUnderstood}
	for body, want := range map[string]string{
		`input.x == "a"`:                               "5 compared input.x",
		`rand.intn("x", 2) == 1`:                       "5 impure rand.intn",
		`sprintf("%d", [time.now_ns()]) == input.x`:    "5 clock_used time.now_ns",
		`input.x < time.now_ns()`:                      "5 clock_bound time.now_ns",
		`input.x == data.y with input.x as 1`:          "5 not_understood ",
		`input.x`:                                      "5 whole input.x",
		`object.get(input, ["a", "b-c"], 1) == data.y`: `5 whole input.a["b-c"]`,
	} {
		module := "package envoy.authz\n\nallow if {\n\ttrue\n\t" + body + "\n}\n"
		got := causesOf(t, "a.rego", module)
		if !slices.Contains(got, want) {
			t.Errorf("%s: got %q, want %q among them", body, got, want)
		}
		source := rego.Source{Modules: map[string]string{"a.rego": module}, Paths: []string{"envoy/authz/allow"}}
		program, err := rego.Compile(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		causes, err := rego.Causes(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		blocked := slices.ContainsFunc(causes, func(c rego.Cause) bool { return slices.Contains(blocking, c.Kind) })
		if cached := program.Cacheable("envoy/authz/allow"); cached == blocked {
			t.Errorf("%s: cacheable %v, with the causes %q", body, cached, got)
		}
	}
}

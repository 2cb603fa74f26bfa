package rego_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/rego"
)

// compile compiles one module and asks for the rules at paths.
func compile(t testing.TB, module string, data map[string]any, paths ...string) *rego.Program {
	t.Helper()
	p, err := rego.Compile(context.Background(), rego.Source{
		Modules: map[string]string{"policy.rego": module}, Data: data, Paths: paths,
	})
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return p
}

// refusal compiles what must not compile and returns the problems.
func refusal(t testing.TB, source rego.Source) []rego.Problem {
	t.Helper()
	_, err := rego.Compile(context.Background(), source)
	var refused *rego.CompileError
	if !errors.As(err, &refused) {
		t.Fatalf("Compile: %v, want a CompileError", err)
	}
	if len(refused.Problems) == 0 || len(refused.Problems) > 10 {
		t.Fatalf("%d problems, want 1 to 10", len(refused.Problems))
	}
	for _, p := range refused.Problems {
		if p.Code == "" || p.Message == "" || len(p.Message) > 510 {
			t.Errorf("problem %+v: no code, or no message, or one that is too long", p)
		}
	}
	if !strings.Contains(err.Error(), refused.Problems[0].Message) {
		t.Errorf("Error() = %q does not name the first problem", err)
	}
	return refused.Problems
}

func TestCompileErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		module string
		// want is one problem's "row:column code", and a part of its message.
		want, message string
	}{
		"syntax":               {"package a\n\nallow if {\n", "4:0 rego_parse_error", "unexpected eof"},
		"v0 rule":              {"package a\n\nallow { true }", "3:1 rego_parse_error", "`if` keyword is required"},
		"v0 partial set":       {"package a\n\ns[x] { x := 1 }", "3:1 rego_parse_error", "`contains` keyword is required"},
		"no package":           {"allow := true", "1:1 rego_parse_error", "package expected"},
		"unsafe variable":      {"package a\n\nallow if x", "3:10 rego_unsafe_var_error", "x is unsafe"},
		"recursion":            {"package a\n\nallow := allow", "3:1 rego_recursion_error", "recursive"},
		"types":                {"package a\n\nallow if 1 + \"x\" == 2", "3:10 rego_type_error", "invalid argument"},
		"unknown function":     {"package a\n\nallow if lib.f(1)", "3:10 rego_type_error", "undefined function lib.f"},
		"two defaults":         {"package a\n\ndefault allow := true\n\ndefault allow := false", "1:1 rego_type_error", "multiple default rules"},
		"empty":                {"", "0:0 rego_parse_error", "The module is empty."},
		"only a comment":       {"# later", "0:0 rego_parse_error", "The module is empty."},
		"conflict of packages": {"package a\n\nallow := 1\n\nallow.x := 2", "3:1 rego_type_error", "conflict"},
	} {
		t.Run(name, func(t *testing.T) {
			got := refusal(t, rego.Source{Modules: map[string]string{"dir/a b.rego": tt.module}})[0]
			if position := fmt.Sprintf("%d:%d %s", got.Row, got.Column, got.Code); position != tt.want {
				t.Errorf("problem at %s, want %s", position, tt.want)
			}
			if got.File != "dir/a b.rego" {
				t.Errorf("file %q", got.File)
			}
			if !strings.Contains(got.Message, tt.message) {
				t.Errorf("message %q, want %q in it", got.Message, tt.message)
			}
		})
	}
}

func TestCompileErrorsAreSortedAndBounded(t *testing.T) {
	var module strings.Builder
	module.WriteString("package a\n")
	for i := range 30 {
		fmt.Fprintf(&module, "r%d := unknown%d\n", i, i)
	}
	got := refusal(t, rego.Source{Modules: map[string]string{"a": module.String(), "b": "package b\nx := y"}})
	var rows []int
	for _, p := range got {
		if p.File == "a" {
			rows = append(rows, p.Row)
		}
	}
	if len(got) != 10 || len(rows) < 9 {
		t.Errorf("%d problems, %d of the first module", len(got), len(rows))
	}
	for i := 1; i < len(rows); i++ {
		if rows[i] < rows[i-1] {
			t.Errorf("rows %v are not in order", rows)
		}
	}
	long := refusal(t, rego.Source{Modules: map[string]string{"a": "package a\nx := " + strings.Repeat("é", 5000) + "("}})
	if !strings.HasSuffix(long[0].Message, "…") && len(long[0].Message) > 500 {
		t.Errorf("message of %d bytes", len(long[0].Message))
	}
}

func TestCompileFileNames(t *testing.T) {
	for _, file := range []string{"", "/etc/passwd", "../../x", "file:///x", "a\x00b\nc", "é\xff", strings.Repeat("n", 10000)} {
		p, err := rego.Compile(context.Background(), rego.Source{
			Modules: map[string]string{file: "package a\nallow := true"}, Paths: []string{"a/allow"},
		})
		if err != nil {
			t.Errorf("file %q: %v", file, err)
			continue
		}
		if r, err := p.Eval(context.Background(), "a/allow", rego.Input{}, time.Now()); err != nil || r.Value != true {
			t.Errorf("file %q: %v, %v", file, r, err)
		}
	}
}

func TestCompilePaths(t *testing.T) {
	source := func(paths ...string) rego.Source {
		return rego.Source{
			Modules: map[string]string{
				"a": "package envoy.authz\nallow := true\nf(x) := x\np contains 1\nq[x] := 1 if some x in [1]\n",
				"b": "package lib.jwt\nvalid := true",
			},
			Data:  map[string]any{"limits": map[string]any{"hosts": 3.0}},
			Paths: paths,
		}
	}
	for _, path := range []string{
		"envoy/authz/allow", "envoy/authz/p", "envoy/authz/q", "envoy/authz", "envoy", "limits", "limits/hosts", "lib/jwt/valid",
	} {
		if _, err := rego.Compile(context.Background(), source(path)); err != nil {
			t.Errorf("path %s: %v", path, err)
		}
	}
	const rule = "A rule is named by its path below data, with a slash between two names, such as envoy/authz/allow."
	for path, message := range map[string]string{
		"":                        rule,
		"/envoy/authz/allow":      rule,
		"envoy/authz/allow/":      rule,
		"envoy//allow":            rule,
		"data.envoy.authz.allow":  "There is no rule or document data.envoy.authz.allow. The packages are envoy/authz, lib/jwt.",
		"envoy/authz/deny":        "There is no rule or document envoy/authz/deny. The packages are envoy/authz, lib/jwt.",
		"limits/vms":              "There is no rule or document limits/vms. The packages are envoy/authz, lib/jwt.",
		"limits/hosts/x":          "There is no rule or document limits/hosts/x. The packages are envoy/authz, lib/jwt.",
		"envoy/authz/f":           "envoy/authz/f is a function. Name a rule without arguments.",
		"envoy/authz/allow\x00\n": "There is no rule or document envoy/authz/allow\x00\n. The packages are envoy/authz, lib/jwt.",
	} {
		want := []rego.Problem{{Path: path, Code: "path_error", Message: message}}
		if diff := cmp.Diff(want, refusal(t, source(path))); diff != "" {
			t.Errorf("path %q (-want +got):\n%s", path, diff)
		}
	}
	want := []rego.Problem{{Path: "x", Code: "path_error", Message: "There is no rule or document x. There are no modules."}}
	if diff := cmp.Diff(want, refusal(t, rego.Source{Paths: []string{"x"}})); diff != "" {
		t.Errorf("no modules (-want +got):\n%s", diff)
	}
}

func TestCompileDataConflicts(t *testing.T) {
	module := map[string]string{"a": "package envoy.authz\nallow := true"}
	for name, data := range map[string]map[string]any{
		"value at the rule":    {"envoy": map[string]any{"authz": map[string]any{"allow": true}}},
		"value at the package": {"envoy": map[string]any{"authz": true}},
		"value above it":       {"envoy": "x"},
	} {
		t.Run(name, func(t *testing.T) {
			got := refusal(t, rego.Source{Modules: module, Data: data, Paths: []string{"envoy/authz/allow"}})
			if !strings.Contains(got[0].Message, "conflict") {
				t.Errorf("problems %+v", got)
			}
		})
	}
	beside := map[string]any{"envoy": map[string]any{"authz": map[string]any{"roles": []any{"a"}}}}
	p, err := rego.Compile(context.Background(), rego.Source{Modules: module, Data: beside, Paths: []string{"envoy/authz"}})
	if err != nil {
		t.Fatalf("data beside the rules: %v", err)
	}
	got, err := p.Eval(context.Background(), "envoy/authz", rego.Input{}, time.Now())
	if diff := cmp.Diff(map[string]any{"allow": true, "roles": []any{"a"}}, got.Value); err != nil || diff != "" {
		t.Errorf("package: %v (-want +got):\n%s", err, diff)
	}
}

func TestCompileHonoursContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := rego.Compile(ctx, rego.Source{Modules: map[string]string{"a": "package a\nallow := true"}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Compile: %v, want that the context was cancelled", err)
	}
	// The time is over while the compiler works: many rules take it longer.
	var module strings.Builder
	module.WriteString("package a\n")
	for i := range 9_000 {
		fmt.Fprintf(&module, "r%d if input.x[%d].y == r%d\n", i+1, i, i)
	}
	module.WriteString("r0 := 1")
	ctx, cancel = context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	_, err = rego.Compile(ctx, rego.Source{Modules: map[string]string{"a": module.String()}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Compile: %v, want that the deadline was exceeded", err)
	}
}

func FuzzCompile(f *testing.F) {
	f.Add("package envoy.authz\n\ndefault allow := false\n\nallow if input.x == data.y[_].z\n", "envoy/authz/allow")
	f.Add("package a\nimport rego.v1\nf(x) := y if y := x + 1\np contains x if some x in input.xs", "a/p")
	f.Add("package a\n# METADATA\n# schemas:\n# - input: {$ref: \"file:///etc/passwd\"}\nx := http.send({})", "a")
	f.Add("package a\nx := {[y | y := input[_]] | true} with input as [1]", "a/x")
	f.Add("package a\ndefault x := 1 else := 2", "a//x")
	f.Fuzz(func(t *testing.T, module, path string) {
		if len(module) > 10_000 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		p, err := rego.Compile(ctx, rego.Source{Modules: map[string]string{"m": module}, Paths: []string{path}})
		if err == nil {
			_, _ = p.Eval(ctx, path, rego.Input{}, time.Unix(0, 0))
			return
		}
		var refused *rego.CompileError
		if !errors.As(err, &refused) && ctx.Err() == nil {
			t.Fatalf("Compile: %v, want a CompileError", err)
		}
	})
}

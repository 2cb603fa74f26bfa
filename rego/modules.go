package rego

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"

	"understudy/rego/compile"
)

// decisionNames are the usual names of rules that decide, in published policies and in
// OPA's own documentation. `understudy import` proposes a path by them.
var decisionNames = []string{"allow", "allowed", "authz", "decision", "main", "response", "result"}

// Decisions returns the paths of the rules that look like decisions, in order: they
// have one value, take no arguments, are no tests, and have a default or a usual name.
// It is a guess for the user to confirm, and nothing is compiled for it. The error is a
// *CompileError or that of ctx.
func Decisions(ctx context.Context, modules map[string]string) ([]string, error) {
	parsed, err := compile.Parse(ctx, modules)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, module := range parsed {
		for _, rule := range module.Rules {
			if path, ok := pathOf(module.Package.Path.Extend(rule.Head.Ref())); ok && decides(rule, path) {
				out = append(out, path)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// decides leaves out package system, which is OPA's configuration of itself.
func decides(rule *ast.Rule, path string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case len(rule.Head.Args) > 0, rule.Head.DocKind() != ast.CompleteDoc, compile.IsTestName(name):
		return false
	case strings.HasPrefix(path, "system/"):
		return false
	}
	return rule.Default || slices.Contains(decisionNames, name)
}

// pathOf turns data.a.b into a/b. A reference that no path can name has none: one with
// a variable or a number in it, or with a name that has a slash.
func pathOf(ref ast.Ref) (string, bool) {
	var segments []string
	for _, term := range ref[1:] {
		name, ok := term.Value.(ast.String)
		if v, isVar := term.Value.(ast.Var); isVar {
			name, ok = ast.String(v), true
		}
		if !ok || name == "" || strings.Contains(string(name), "/") {
			return "", false
		}
		segments = append(segments, string(name))
	}
	return strings.Join(segments, "/"), true
}

// DataReference returns a path as it is written in Rego: data.envoy.authz.allow for envoy/authz/allow. A name
// that is no variable is quoted.
func DataReference(path string) string {
	ref := ast.Ref{ast.DefaultRootDocument}
	for segment := range strings.SplitSeq(path, "/") {
		ref = append(ref, ast.StringTerm(segment))
	}
	return ref.String()
}

// Packages returns the package of each module, as a path such as envoy/authz. A package
// that no path can name is empty. Nothing is compiled. The error is a *CompileError or
// that of ctx.
func Packages(ctx context.Context, modules map[string]string) (map[string]string, error) {
	parsed, err := compile.Parse(ctx, modules)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(parsed))
	for file, module := range parsed {
		out[file], _ = pathOf(module.Package.Path)
	}
	return out, nil
}

// Format returns the text of a module as `opa fmt` writes it. The error is that of a text that
// does not parse.
func Format(file string, text []byte) (string, error) {
	out, err := format.SourceWithOpts(file, text, format.Opts{RegoVersion: ast.RegoV1})
	if err != nil {
		return "", fmt.Errorf("formatting %s: %w", file, err)
	}
	return string(out), nil
}

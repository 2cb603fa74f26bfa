package rego

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// codePath is the Problem.Code of a path that names no rule.
const codePath = "path_error"

// refs returns the references of all paths to prepare :: path → reference: all that are required, and of the
// others those that are there. It returns the problems of those that name nothing.
func (s *Source) refs(compiler *ast.Compiler) (map[string]ast.Ref, []Problem) {
	paths := slices.Clone(s.Paths)
	for _, path := range s.Optional {
		if ref, ok := parsePath(path); ok && exists(compiler, s.Data, ref) {
			paths = append(paths, path)
		}
	}
	out := make(map[string]ast.Ref)
	var problems []Problem
	for _, path := range paths {
		ref, problem := resolve(compiler, s.Data, path)
		if problem != nil {
			problems = append(problems, *problem)
			continue
		}
		out[path] = ref
	}
	return out, problems
}

// exists reports whether there is a rule, a package or a document. A package counts:
// its value is the object of all its rules, as in OPA's data API.
func exists(compiler *ast.Compiler, data map[string]any, ref ast.Ref) bool {
	return len(compiler.GetRules(ref)) > 0 || inData(data, ref)
}

// resolve turns a path into a reference to a rule, a package or a document.
func resolve(compiler *ast.Compiler, data map[string]any, path string) (ast.Ref, *Problem) {
	problem := &Problem{Path: path, Code: codePath}
	ref, ok := parsePath(path)
	if !ok {
		problem.Message = "A rule is named by its path below data, with a slash between two names, such as envoy/authz/allow."
		return nil, problem
	}
	rules := compiler.GetRules(ref)
	switch {
	case !exists(compiler, data, ref):
		problem.Message = fmt.Sprintf("There is no rule or document %s. %s", path, packagesHint(compiler))
		return nil, problem
	case isFunction(rules, ref):
		problem.Message = path + " is a function. Name a rule without arguments."
		return nil, problem
	}
	return ref, nil
}

// parsePath turns a/b/c into data.a.b.c.
func parsePath(path string) (ast.Ref, bool) {
	ref := ast.Ref{ast.DefaultRootDocument}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" {
			return nil, false
		}
		ref = append(ref, ast.StringTerm(segment))
	}
	return ref, true
}

// inData reports whether a path leads into the data. Elements of arrays cannot be
// named.
func inData(data map[string]any, ref ast.Ref) bool {
	var node any = data
	for _, term := range ref[1:] {
		object, ok := node.(map[string]any)
		if !ok {
			return false
		}
		if node, ok = object[string(term.Value.(ast.String))]; !ok {
			return false
		}
	}
	return true
}

// isFunction reports whether the reference is that of a function, which has no value
// without arguments. Asked for one, OPA would say "undefined", and every request would
// be denied.
func isFunction(rules []*ast.Rule, ref ast.Ref) bool {
	return slices.ContainsFunc(rules, func(r *ast.Rule) bool {
		return len(r.Head.Args) > 0 && r.Ref().GroundPrefix().Equal(ref)
	})
}

// packagesHint names the packages there are, written as paths: the usual mistake is a
// path that lacks its package or has one of another file.
func packagesHint(compiler *ast.Compiler) string {
	var packages []string
	for _, m := range compiler.Modules {
		if path, ok := pathOf(m.Package.Path); ok {
			packages = append(packages, path)
		}
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	switch len(packages) {
	case 0:
		return "There are no modules."
	case 1:
		return "The only package is " + packages[0] + "."
	}
	return "The packages are " + strings.Join(packages, ", ") + "."
}

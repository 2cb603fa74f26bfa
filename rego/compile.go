package rego

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

const (
	// maxProblems bounds the problems that a CompileError tells.
	maxProblems = 10
	// maxMessage bounds the message of a problem, in bytes: OPA quotes the source.
	maxMessage = 500
	// codePath is the Problem.Code of a path that names no rule.
	codePath = "path_error"
)

// Compile compiles a Source under restricted capabilities: no network, no access
// to the environment of the process. The error is a *CompileError or that of ctx.
func Compile(ctx context.Context, source Source) (*Program, error) {
	modules, err := parse(ctx, source.Modules)
	if err != nil {
		return nil, err
	}
	store := newStore(source.Data)
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return nil, fmt.Errorf("opening the data: %w", err)
	}
	defer store.Abort(ctx, txn)
	compiler := ast.NewCompiler().
		WithCapabilities(capabilities).
		WithEnablePrintStatements(false).
		WithPathConflictsCheck(storage.NonEmpty(ctx, store, txn)).
		SetErrorLimit(maxProblems)
	compiler.Compile(modules)
	if compiler.Failed() {
		return nil, newCompileError(problemsOf(compiler.Errors))
	}
	return prepare(ctx, compiler, store, source)
}

func newStore(data map[string]any) storage.Store {
	if data == nil {
		data = map[string]any{}
	}
	return inmem.NewFromObjectWithOpts(data, inmem.OptRoundTripOnWrite(false), inmem.OptReturnASTValuesOnRead(true))
}

// parse parses every module, so that the problems of all are told at once.
func parse(ctx context.Context, sources map[string]string) (map[string]*ast.Module, error) {
	modules := make(map[string]*ast.Module, len(sources))
	var problems []Problem
	for _, file := range slices.Sorted(maps.Keys(sources)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		module, err := ast.ParseModuleWithOpts(file, sources[file], ast.ParserOptions{
			Capabilities: capabilities, RegoVersion: ast.RegoV1,
		})
		switch {
		case err != nil:
			problems = append(problems, problemsIn(file, err)...)
		case module == nil:
			problems = append(problems, Problem{File: file, Code: ast.ParseErr, Message: "The module is empty."})
		default:
			modules[file] = module
		}
	}
	if len(problems) > 0 {
		return nil, newCompileError(problems)
	}
	return modules, nil
}

// prepare makes the query of each path.
func prepare(
	ctx context.Context, compiler *ast.Compiler, store storage.Store, source Source,
) (*Program, error) {
	p := &Program{queries: make(map[string]oparego.PreparedEvalQuery, len(source.Paths))}
	var problems []Problem
	for _, path := range source.Paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ref, ok := parsePath(path)
		if !ok {
			problems = append(problems, Problem{Path: path, Code: codePath, Message: "A rule is named by its path below data, " +
				"its segments divided by slashes, such as envoy/authz/allow."})
			continue
		}
		if !defined(compiler, source.Data, ref) {
			problems = append(problems, missingRule(compiler, path))
			continue
		}
		query, err := oparego.New(
			oparego.Compiler(compiler), oparego.Store(store), oparego.Capabilities(capabilities),
			oparego.ParsedQuery(ast.NewBody(ast.NewExpr(ast.NewTerm(ref)))),
		).PrepareForEval(ctx)
		if err != nil {
			problems = append(problems, problemsIn("", err)...)
			continue
		}
		p.queries[path] = query
	}
	if len(problems) > 0 {
		return nil, newCompileError(problems)
	}
	return p, nil
}

// parsePath turns a/b/c into data.a.b.c.
func parsePath(path string) (ast.Ref, bool) {
	ref := ast.Ref{ast.DefaultRootDocument}
	for _, segment := range strings.Split(path, "/") {
		if segment == "" {
			return nil, false
		}
		ref = append(ref, ast.StringTerm(segment))
	}
	return ref, true
}

// defined reports whether a path leads to a rule or into the data.
func defined(compiler *ast.Compiler, data map[string]any, ref ast.Ref) bool {
	if len(compiler.GetRules(ref)) > 0 {
		return true
	}
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

// missingRule says that a path leads nowhere and what there is instead.
func missingRule(compiler *ast.Compiler, path string) Problem {
	var packages []string
	for _, m := range compiler.Modules {
		packages = append(packages, strings.TrimPrefix(m.Package.Path.String(), "data."))
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	hint := "There are no modules."
	if len(packages) > 0 {
		hint = "The packages are " + strings.Join(packages, ", ") + "."
	}
	return Problem{Path: path, Code: codePath, Message: fmt.Sprintf(
		"No module has a rule data.%s. %s", strings.ReplaceAll(path, "/", "."), hint)}
}

func newCompileError(problems []Problem) *CompileError {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Row, b.Row), cmp.Compare(a.Column, b.Column))
	})
	if len(problems) > maxProblems {
		problems = problems[:maxProblems]
	}
	for i := range problems {
		if m := problems[i].Message; len(m) > maxMessage {
			problems[i].Message = strings.ToValidUTF8(m[:maxMessage], "") + "…"
		}
	}
	return &CompileError{problems}
}

// problemsIn turns an error of OPA about one file into problems.
func problemsIn(file string, err error) []Problem {
	var many ast.Errors
	if errors.As(err, &many) {
		return problemsOf(many)
	}
	return []Problem{{File: file, Code: ast.CompileErr, Message: err.Error()}}
}

func problemsOf(errs ast.Errors) []Problem {
	var out []Problem
	for _, e := range errs {
		p := Problem{Code: e.Code, Message: e.Message}
		if e.Location != nil {
			p.File, p.Row, p.Column = e.Location.File, e.Location.Row, e.Location.Col
		}
		out = append(out, p)
	}
	return out
}

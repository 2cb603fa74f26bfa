package rego

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

// Compile compiles a Source under restricted capabilities: no network, no access
// to the environment of the process. The error is a *CompileError or that of ctx,
// which is looked at between the steps of the compilation.
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
	compiler := newCompiler(ctx).WithPathConflictsCheck(storage.NonEmpty(ctx, store, txn))
	compiler.Compile(modules)
	switch {
	case ctx.Err() != nil:
		return nil, ended(ctx)
	case compiler.Failed():
		return nil, newCompileError(problemsOf(compiler.Errors))
	}
	return prepare(ctx, compiler, store, source)
}

// newCompiler returns a compiler that drops print statements and stops after the
// stage in which ctx ends.
func newCompiler(ctx context.Context) *ast.Compiler {
	compiler := ast.NewCompiler().
		WithCapabilities(capabilities).
		WithEnablePrintStatements(false).
		SetErrorLimit(maxProblems)
	for _, stage := range ast.AllStages() {
		compiler.WithStageAfterID(stage, ast.CompilerStageDefinition{
			Name:       "Context" + string(stage),
			MetricName: "compile_stage_context",
			Stage: func(*ast.Compiler) *ast.Error {
				if err := ctx.Err(); err != nil {
					return ast.NewError(ast.CompileErr, nil, "%s", err)
				}
				return nil
			},
		})
	}
	return compiler
}

// newStore returns an immutable store: nothing here ever writes to it.
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
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		module, err := ast.ParseModuleWithOpts(file, sources[file], ast.ParserOptions{
			Capabilities: capabilities, RegoVersion: ast.RegoV1,
		})
		switch {
		case err != nil:
			problems = append(problems, problemsIn(file, err)...)
		case module == nil:
			problems = append(problems, emptyModule(file))
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
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		ref, problem := resolve(compiler, source.Data, path)
		if problem != nil {
			problems = append(problems, *problem)
			continue
		}
		query, err := oparego.New(
			oparego.Compiler(compiler), oparego.Store(store), oparego.Capabilities(capabilities),
			oparego.ParsedQuery(ast.NewBody(ast.NewExpr(ast.NewTerm(ref)))),
		).PrepareForEval(ctx)
		if err != nil {
			problems = append(problems, Problem{Path: path, Code: codePath, Message: err.Error()})
			continue
		}
		p.queries[path] = query
	}
	if len(problems) > 0 {
		return nil, newCompileError(problems)
	}
	return p, nil
}

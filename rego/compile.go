package rego

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
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
	if problem := tooMuch(modules); problem != nil {
		return nil, newCompileError([]Problem{*problem})
	}
	store := newStore(source.Data)
	// The transaction is that of all evaluations: nobody ever writes to the store.
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return nil, fmt.Errorf("opening the data: %w", err)
	}
	compiler := newCompiler(ctx).WithPathConflictsCheck(storage.NonEmpty(ctx, store, txn))
	compiler.Compile(modules)
	switch {
	case ctx.Err() != nil:
		return nil, ended(ctx)
	case compiler.Failed():
		return nil, newCompileError(problemsOf(compiler.Errors))
	}
	p := &Program{compiler: compiler, store: store, txn: txn}
	if err := p.prepare(ctx, source); err != nil {
		return nil, err
	}
	return p, nil
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

// prepare makes the query of each path, and finds out what it reads.
func (p *Program) prepare(ctx context.Context, source Source) error {
	refs, problems := source.refs(p.compiler)
	if len(problems) > 0 {
		return newCompileError(problems)
	}
	known := analyse(p.compiler, slices.Collect(maps.Values(refs)), usesLocalNames(source.Modules))
	p.queries = make(map[string]query, len(refs))
	for path, ref := range refs {
		if ctx.Err() != nil {
			return ended(ctx)
		}
		p.queries[path] = newQuery(ref, known)
	}
	if err := p.narrow(ctx, known); err != nil {
		return err
	}
	p.substitutes = known.ours.builtins
	return nil
}

// usesLocalNames reports whether a module may name a variable as the compiler names
// its own, which the analysis takes for unique.
func usesLocalNames(modules map[string]string) bool {
	for _, text := range modules {
		if strings.Contains(text, ast.LocalVarPrefix) {
			return true
		}
	}
	return false
}

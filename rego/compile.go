package rego

import (
	"context"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"

	"understudy/rego/compile"
	"understudy/rego/evaluator"
)

// Problem is one reason for which a Source does not compile.
type Problem = compile.Problem

// CompileError is the error of a Source that does not compile.
type CompileError = compile.Error

// Compile compiles a Source under restricted capabilities: no network, no access to the
// environment of the process. The error is a *CompileError or that of ctx, which is
// looked at between the steps of the compilation; a step may take seconds (see package
// rego/compile for what bounds it).
//
// The steps depend on each other: parse, refuse what would take too long, compile, and make the closures by
// which paths are evaluated.
func Compile(ctx context.Context, source Source) (*Program, error) {
	p, compiler, err := load(ctx, source)
	if err != nil {
		return nil, err
	}
	if err := p.prepare(ctx, source, compiler); err != nil {
		return nil, err
	}
	p.interpreter = interpreterOf(compiler, source.Modules)
	return p, nil
}

// load parses and compiles the modules, and opens the data.
func load(ctx context.Context, source Source) (*Program, *ast.Compiler, error) {
	modules, err := compile.Parse(ctx, source.Modules)
	if err != nil {
		return nil, nil, err
	}
	if problem := compile.TooMuch(modules); problem != nil {
		return nil, nil, compile.NewError([]Problem{*problem})
	}
	store := compile.NewStore(source.Data)
	// The transaction is that of all evaluations: nobody ever writes to the store.
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the data: %w", err)
	}
	compiler := compile.New(ctx).WithPathConflictsCheck(storage.NonEmpty(ctx, store, txn))
	compiler.Compile(modules)
	switch {
	case ctx.Err() != nil:
		return nil, nil, compile.Ended(ctx)
	case compiler.Failed():
		return nil, nil, compile.NewError(compile.ProblemsOf(compiler.Errors))
	}
	if problems := append(compile.Cycles(compiler.Modules), compile.SharedSets(compiler.RuleTree)...); len(problems) > 0 {
		return nil, nil, compile.NewError(problems)
	}
	return &Program{store: store, txn: txn}, compiler, nil
}

// prepare makes the query of each path. Nothing may change the modules after it: evaluations read them
// without a lock.
func (p *Program) prepare(ctx context.Context, source Source, compiler *ast.Compiler) error {
	refs, problems := source.refs(compiler)
	if len(problems) > 0 {
		return compile.NewError(problems)
	}
	c, err := p.newCompiler(ctx, compiler)
	if err != nil {
		return err
	}
	p.vocabulary = c.Vocabulary()
	p.queries = make(map[string]query, len(refs))
	for path, ref := range refs {
		if ctx.Err() != nil {
			return compile.Ended(ctx)
		}
		p.queries[path] = newQuery(path, ref, compiler, c)
	}
	compile.Release(compiler)
	return nil
}

// newCompiler returns a compiler of the evaluator for the program's data.
func (p *Program) newCompiler(ctx context.Context, compiler *ast.Compiler) (*evaluator.Compiler, error) {
	data, err := p.store.Read(ctx, p.txn, storage.RootPath)
	if err != nil {
		return nil, fmt.Errorf("reading the data: %w", err)
	}
	return evaluator.NewCompiler(compiler, data.(ast.Value)), nil
}

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
	p, err := load(ctx, source)
	if err != nil {
		return nil, err
	}
	if err := p.prepare(ctx, source); err != nil {
		return nil, err
	}
	return p, nil
}

// load parses and compiles the modules, and opens the data.
func load(ctx context.Context, source Source) (*Program, error) {
	modules, err := compile.Parse(ctx, source.Modules)
	if err != nil {
		return nil, err
	}
	if problem := compile.TooMuch(modules); problem != nil {
		return nil, compile.NewError([]Problem{*problem})
	}
	store := compile.NewStore(source.Data)
	// The transaction is that of all evaluations: nobody ever writes to the store.
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return nil, fmt.Errorf("opening the data: %w", err)
	}
	compiler := compile.New(ctx).WithPathConflictsCheck(storage.NonEmpty(ctx, store, txn))
	compiler.Compile(modules)
	switch {
	case ctx.Err() != nil:
		return nil, compile.Ended(ctx)
	case compiler.Failed():
		return nil, compile.NewError(compile.ProblemsOf(compiler.Errors))
	}
	if problems := compile.Cycles(compiler.Modules); len(problems) > 0 {
		return nil, compile.NewError(problems)
	}
	return &Program{compiler: compiler, store: store, txn: txn}, nil
}

// prepare makes the query of each path. Nothing may change the modules after it: evaluations read them
// without a lock.
func (p *Program) prepare(ctx context.Context, source Source) error {
	refs, problems := source.refs(p.compiler)
	if len(problems) > 0 {
		return compile.NewError(problems)
	}
	data, err := p.store.Read(ctx, p.txn, storage.RootPath)
	if err != nil {
		return fmt.Errorf("reading the data: %w", err)
	}
	c := evaluator.NewCompiler(p.compiler, data.(ast.Value))
	p.vocabulary = c.Vocabulary()
	p.queries = make(map[string]query, len(refs))
	for path, ref := range refs {
		if ctx.Err() != nil {
			return compile.Ended(ctx)
		}
		p.queries[path] = newQuery(path, ref, p.compiler, c)
	}
	compile.Release(p.compiler)
	return nil
}

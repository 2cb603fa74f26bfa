package rego

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"

	"understudy/rego/compile"
	"understudy/rego/dependencies"
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
// The steps depend on each other: parse, refuse what would take too long, compile, find what each path
// depends on, which instruments the modules, and make the closures by which paths are evaluated.
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
	return &Program{compiler: compiler, store: store, txn: txn}, nil
}

// prepare makes the query of each path, finds out what it reads, instruments the modules, and
// compiles what the evaluator knows. Nothing may change the modules after it: evaluations read them without a
// lock.
func (p *Program) prepare(ctx context.Context, source Source) error {
	known, refs, err := p.analyse(ctx, source)
	if err != nil {
		return err
	}
	p.queries = make(map[string]query, len(refs))
	for path, ref := range refs {
		if ctx.Err() != nil {
			return compile.Ended(ctx)
		}
		p.queries[path] = newQuery(ref, known)
	}
	if err := p.compileQueries(ctx, known); err != nil {
		return err
	}
	p.builtins = known.Builtins.All()
	compile.Release(p.compiler)
	return nil
}

// compileQueries compiles what the evaluator knows of each path.
func (p *Program) compileQueries(ctx context.Context, known *dependencies.Analysis) error {
	c, err := p.evaluators(ctx, known)
	if err != nil {
		return err
	}
	p.vocabulary = c.Vocabulary()
	for path, q := range p.queries {
		q.compiled, q.unsupported = c.Compile(q.ref)
		p.queries[path] = q
	}
	return nil
}

// evaluators returns what compiles the paths of the program.
func (p *Program) evaluators(ctx context.Context, known *dependencies.Analysis) (*evaluator.Compiler, error) {
	data, err := p.store.Read(ctx, p.txn, storage.RootPath)
	if err != nil {
		return nil, fmt.Errorf("reading the data: %w", err)
	}
	return evaluator.NewCompiler(p.compiler, data.(ast.Value), &known.Builtins), nil
}

// analyse finds out what the rules of a source depend on. It also returns
// the reference of each path.
func (p *Program) analyse(ctx context.Context, source Source) (*dependencies.Analysis, map[string]ast.Ref, error) {
	refs, problems := source.refs(p.compiler)
	if len(problems) > 0 {
		return nil, nil, compile.NewError(problems)
	}
	read, err := p.store.Read(ctx, p.txn, storage.RootPath)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the data: %w", err)
	}
	known := dependencies.Analyse(p.compiler, read.(ast.Value), slices.Collect(maps.Values(refs)), usesLocalNames(source.Modules))
	return known, refs, nil
}

// usesLocalNames reports whether a module may name a variable as the compiler names its
// own: one name may be two variables of the author's text then. A text search is enough: it may say
// yes for a comment or a string, and then the policy is only slower.
func usesLocalNames(modules map[string]string) bool {
	for _, text := range modules {
		if strings.Contains(text, ast.LocalVarPrefix) {
			return true
		}
	}
	return false
}

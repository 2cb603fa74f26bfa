// Package compile turns the text of modules into compiled modules, within bounds.
//
// A policy is compiled under restricted capabilities: it may call neither what reaches the
// network nor what reads the environment of the process. What the built-ins of OPA do
// beyond that (a panic for a token, a schema that names a file) is put right here as well.
// The stages of OPA's compiler cannot be interrupted, so the effort of compiling is
// estimated first. What is wrong with a policy is reported as [Problem]s, which name a file, a
// row and what to do.
package compile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/tester"
)

// New returns a compiler that drops print statements and stops after the stage in which
// ctx ends: a check of its own is put after each stage, since OPA has no other way to
// interrupt a compilation. Dropped prints can neither fail nor slow down an evaluation,
// and no header or token gets into a log by one.
func New(ctx context.Context) *ast.Compiler {
	compiler := ast.NewCompiler().
		WithCapabilities(Capabilities).
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

// Parse parses every module, so that the problems of all are reported at once. Modules
// are parsed in the order of their names, so that the same source has the same problems
// each time.
func Parse(ctx context.Context, sources map[string]string) (map[string]*ast.Module, error) {
	modules := make(map[string]*ast.Module, len(sources))
	var problems []Problem
	for _, file := range slices.Sorted(maps.Keys(sources)) {
		if ctx.Err() != nil {
			return nil, Ended(ctx)
		}
		module, err := ast.ParseModuleWithOpts(file, sources[file], ast.ParserOptions{
			Capabilities: Capabilities, RegoVersion: ast.RegoV1,
		})
		switch {
		case err != nil:
			problems = append(problems, ProblemsIn(file, err)...)
		case module == nil:
			problems = append(problems, emptyModule(file))
		default:
			modules[file] = module
		}
	}
	if len(problems) > 0 {
		return nil, NewError(problems)
	}
	return modules, nil
}

// Ended returns why ctx is done: its error, and its cause if it has another.
func Ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// IsTestName reports whether a rule of this name is a test, or one that is skipped
// (todo_test_).
func IsTestName(name string) bool {
	return strings.HasPrefix(name, tester.TestPrefix) || strings.HasPrefix(name, tester.SkipTestPrefix)
}

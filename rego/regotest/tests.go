// Package regotest runs the tests of a policy: rules that are named test_….
//
// A source is compiled with its tests as `opa test` does it, each test is a query of its
// own with a deadline, and what it prints, where it failed and which rows were covered is
// kept within bounds. It is used by the control plane and the command line, never for a
// decision.
package regotest

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/tester"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego"
	"understudy/rego/compile"
)

const (
	// testTimeout is that of one test, unless the options say otherwise. It is OPA's.
	testTimeout = 5 * time.Second
	// maxTests bounds the tests of a rego.Source.
	maxTests = 10_000
)

// Options choose tests and say how they are run. Their zero value runs all, one after
// the other, with a timeout of 5 s for each.
type Options struct {
	// Run chooses the tests whose names match. Nil means all.
	Run *regexp.Regexp
	// Timeout bounds each test; the context bounds all. Zero means 5 s.
	Timeout time.Duration
	// Parallel is the number of tests at a time. Zero means 1. Where decisions are made
	// by the same process, more would take processors from them.
	Parallel int
	// Print keeps what the tests print.
	Print bool
	// Coverage says which rows the tests evaluated.
	Coverage bool
}

// Outcome is how a test ended.
type Outcome string

// The outcomes. A test that is named todo_test_… is skipped.
const (
	Passed  Outcome = "PASS"
	Failed  Outcome = "FAIL"
	Errored Outcome = "ERROR"
	Skipped Outcome = "SKIP"
)

// Test is a test that was run, or skipped.
type Test struct {
	// Name is that of the rule, such as data.envoy.authz_test.test_get. The second
	// rule of one name has #01 after it.
	Name string
	// File and Row say where the rule is.
	File string
	Row  int
	// Outcome is how it ended, and Reason why, if it neither passed nor was skipped.
	Outcome Outcome
	Reason  string
	// Cases :: name → how it ended, for a rule like test_get[name].
	Cases map[string]Outcome
	// Duration is the time of the evaluation.
	Duration time.Duration
	// Output is what the test printed; 64 KiB of it at most.
	Output string
}

// Bad reports whether the test failed or erred.
func (t Test) Bad() bool { return t.Outcome == Failed || t.Outcome == Errored }

// Report is what Run found out. It may be incomplete if Run returns the error of its
// context.
type Report struct {
	// Tests are in the order of files and rows.
	Tests []Test
	// Coverage is nil unless it was asked for.
	Coverage *Coverage
}

// Run runs the test_ rules of a rego.Source as `opa test` does, under the
// capabilities of every policy; Source.Paths is not looked at. A test that fails is
// no error of Run: that is a *rego.CompileError, or that of ctx, which comes with
// the tests that have ended.
func Run(ctx context.Context, source rego.Source, options Options) (Report, error) {
	s, err := newSuite(ctx, source, options)
	if err != nil {
		return Report{}, err
	}
	defer s.store.Abort(ctx, s.txn)
	tests, err := s.find()
	if err != nil {
		return Report{}, err
	}
	report := Report{Tests: s.runAll(ctx, tests)}
	if options.Coverage {
		report.Coverage = coverageOf(s.cover, s.compiler.Modules)
	}
	if ctx.Err() != nil {
		return report, compile.Ended(ctx)
	}
	return report, nil
}

// suite is a rego.Source that was compiled with its tests. Tests only read it, so any
// number run at the same time; the watcher has its own lock.
type suite struct {
	options  Options
	compiler *ast.Compiler
	store    storage.Store
	txn      storage.Transaction
	*testTracer
}

// never matches no name.
const never = `[^\x00-\x{10FFFF}]`

// newSuite compiles a rego.Source as OPA's runner does, which separates rules of one name
// apart and marks the cases of a test. The runner itself is made to run nothing: in
// its goroutines a panic of the evaluation would end the process.
func newSuite(ctx context.Context, source rego.Source, options Options) (*suite, error) {
	modules, err := compile.Parse(ctx, source.Modules)
	if err != nil {
		return nil, err
	}
	s := &suite{options: options, store: compile.NewStore(source.Data), testTracer: newWatcher(modules, options.Coverage)}
	if s.txn, err = s.store.NewTransaction(ctx); err != nil {
		return nil, fmt.Errorf("opening the data: %w", err)
	}
	s.compiler = compile.New(ctx).WithPathConflictsCheck(storage.NonEmpty(ctx, s.store, s.txn)).
		WithEnablePrintStatements(options.Print)
	nothing, err := tester.NewRunner().SetCompiler(s.compiler).SetStore(s.store).SetModules(modules).
		SetPrefixMatchers(ast.MustParseRef("data.understudy.no.such.test")).Filter(never).RunTests(ctx, s.txn)
	switch {
	case ctx.Err() != nil:
		err = compile.Ended(ctx)
	case s.compiler.Failed():
		err = compile.NewError(compile.ProblemsOf(s.compiler.Errors))
	}
	if err != nil {
		s.store.Abort(ctx, s.txn)
		return nil, err
	}
	for range nothing { // it has to be drained
	}
	return s, nil
}

// testRule is a test to be run.
type testRule struct {
	rule *ast.Rule
	// ref is the test's: that of the rule without the names of cases.
	ref ast.Ref
}

// find returns the chosen tests, in the order of files and rows.
func (s *suite) find() ([]testRule, error) {
	var out []testRule
	for _, module := range s.compiler.Modules {
		for _, rule := range module.Rules {
			ref, ok := testRef(rule)
			if !ok || s.options.Run != nil && !s.options.Run.MatchString(testName(ref)) {
				continue
			}
			if out = append(out, testRule{rule, ref}); len(out) > maxTests {
				return nil, compile.NewError([]rego.Problem{{
					File: rule.Location.File, Row: rule.Location.Row, Code: "test_error",
					Message: fmt.Sprintf("There are more than %d tests.", maxTests),
				}})
			}
		}
	}
	slices.SortFunc(out, func(a, b testRule) int {
		x, y := a.rule.Location, b.rule.Location
		return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Row, y.Row), cmp.Compare(x.Col, y.Col))
	})
	return out, nil
}

// testRef returns the reference of a rule up to the name that makes it a test.
func testRef(rule *ast.Rule) (ast.Ref, bool) {
	if len(rule.Head.Args) > 0 {
		return nil, false
	}
	ref := rule.Head.Ref().GroundPrefix()
	for i, term := range ref {
		if compile.IsTestName(segment(term)) {
			return rule.Module.Package.Path.Extend(ref[:i+1]), true
		}
	}
	return nil, false
}

// testName writes the reference of a test with dots alone.
func testName(ref ast.Ref) string {
	names := make([]string, len(ref))
	for i, term := range ref {
		names[i] = segment(term)
	}
	return strings.Join(names, ".")
}

// segment returns the name that a term is in a reference, or nothing.
func segment(term *ast.Term) string {
	switch v := term.Value.(type) {
	case ast.Var:
		return string(v)
	case ast.String:
		return string(v)
	}
	return ""
}

// runAll runs the tests, so many at a time, until ctx ends.
func (s *suite) runAll(ctx context.Context, tests []testRule) []Test {
	out := make([]Test, len(tests))
	queue := make(chan int)
	var workers sync.WaitGroup
	for range max(1, min(s.options.Parallel, len(tests))) {
		workers.Go(func() {
			for i := range queue {
				out[i] = s.run(ctx, tests[i])
			}
		})
	}
	for i := range tests {
		if ctx.Err() != nil {
			break
		}
		queue <- i
	}
	close(queue)
	workers.Wait()
	return slices.DeleteFunc(out, func(t Test) bool { return t.Outcome == "" })
}

// run runs one test. A panic is an error of the test: policies are checked by their
// tests in the process that serves the API. The zero Test means that ctx ended first,
// and is left out of the report.
func (s *suite) run(ctx context.Context, t testRule) (out Test) {
	out = Test{Name: testName(t.ref), File: t.rule.Location.File, Row: t.rule.Location.Row}
	if strings.HasPrefix(segment(t.ref[len(t.ref)-1]), tester.SkipTestPrefix) {
		out.Outcome = Skipped
		return out
	}
	defer func() {
		if recover() != nil {
			out.Outcome, out.Reason = Errored, "The evaluation panicked."
		}
	}()
	limited, cancel := context.WithTimeout(ctx, cmp.Or(s.options.Timeout, testTimeout))
	defer cancel()
	printed, cases := &printout{}, &caseTracer{}
	begin := time.Now()
	value, err := s.eval(limited, t, printed, cases)
	out.Duration, out.Output = time.Since(begin), printed.String()
	switch {
	case ctx.Err() != nil:
		return Test{} // it was not the test that took too long
	case topdown.IsCancel(err):
		out.Outcome, out.Reason = Errored, fmt.Sprintf("It takes longer than %s.", cmp.Or(s.options.Timeout, testTimeout))
	case err != nil:
		out.Outcome, out.Reason = Errored, err.Error()
	default:
		out.Outcome, out.Cases = judge(value, cases.names)
	}
	if out.Outcome == Failed {
		out.Reason = s.failure(t.rule)
	}
	return out
}

// eval evaluates a test; nil if it has no value, which is a failure. Unlike a decision
// it goes through OPA's rego package, since that has hooks for print, cases and
// coverage; speed is no matter here.
func (s *suite) eval(ctx context.Context, t testRule, printed *printout, cases *caseTracer) (any, error) {
	cancel := topdown.NewCancel()
	stop := context.AfterFunc(ctx, cancel.Cancel)
	defer stop()
	query, err := oparego.New(
		oparego.Compiler(s.compiler), oparego.Store(s.store), oparego.Transaction(s.txn),
		oparego.Capabilities(compile.Capabilities), oparego.PrintHook(printed),
		oparego.ParsedQuery(ast.NewBody(ast.NewExpr(ast.NewTerm(t.ref)))),
	).PrepareForEval(ctx)
	if err != nil {
		return nil, err
	}
	results, err := query.Eval(ctx, oparego.EvalTransaction(s.txn), oparego.EvalExternalCancel(cancel),
		oparego.EvalQueryTracer(s.testTracer), oparego.EvalQueryTracer(cases))
	if err != nil || len(results) == 0 {
		return nil, err
	}
	return results[0].Expressions[0].Value, nil
}

// judge derives the outcome of a test from its value, and so that of its cases: those
// that were begun and those that have a value. A case that was begun and has no value
// failed.
func judge(value any, begun []string) (Outcome, map[string]Outcome) {
	values, isCases := value.(map[string]any)
	if !isCases {
		return passedIf(value == true), nil
	}
	all, cases := Passed, make(map[string]Outcome)
	for _, name := range begun {
		cases[name] = Failed
	}
	for name, value := range values {
		cases[name], _ = judge(value, nil)
	}
	for _, outcome := range cases {
		if outcome != Passed {
			all = Failed
		}
	}
	return all, cases
}

func passedIf(passed bool) Outcome {
	if passed {
		return Passed
	}
	return Failed
}

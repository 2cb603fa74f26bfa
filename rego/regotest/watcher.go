package regotest

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/print"

	"understudy/rego/compile"
)

const (
	// maxPrinted bounds what is kept of the output of one test, in bytes.
	maxPrinted = 64 << 10
	// maxCases bounds the cases that are distinguished in one test.
	maxCases = 10_000
)

// testTracer sees every step of all tests: where each test failed last, and what was
// covered. It implements topdown.QueryTracer and is safe for concurrent use.
type testTracer struct {
	// cover is nil if nobody asks for it.
	cover *cover.Cover

	mu sync.Mutex
	// tests :: file → row → the row in which the test around it begins. An event names
	// the place of an expression, not the test that it belongs to.
	tests map[string]map[int]int
	// failed :: file and row of a test → its expression that failed last.
	failed map[position]*ast.Expr
}

type position struct {
	file string
	row  int
}

func newWatcher(modules map[string]*ast.Module, coverage bool) *testTracer {
	w := &testTracer{tests: make(map[string]map[int]int), failed: make(map[position]*ast.Expr)}
	if coverage {
		w.cover = cover.New()
	}
	for file, module := range modules {
		w.tests[file] = make(map[int]int)
		for _, rule := range module.Rules {
			if _, ok := testRef(rule); !ok {
				continue
			}
			for i := range 1 + bytes.Count(rule.Location.Text, []byte("\n")) {
				w.tests[file][rule.Location.Row+i] = rule.Location.Row
			}
		}
	}
	return w
}

// Enabled is always true.
func (w *testTracer) Enabled() bool { return true }

// Config asks for no values of variables.
func (w *testTracer) Config() topdown.TraceConfig { return topdown.TraceConfig{} }

// TraceEvent notes an expression of a test that fails.
func (w *testTracer) TraceEvent(e topdown.Event) {
	if w.cover != nil {
		w.cover.TraceEvent(e)
	}
	expr, ok := e.Node.(*ast.Expr)
	if !ok || e.Op != topdown.FailOp || expr.Location == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if row, ok := w.tests[expr.Location.File][expr.Location.Row]; ok {
		w.failed[position{expr.Location.File, row}] = expr
	}
}

// failure says which expression of a test failed last.
func (w *testTracer) failure(rule *ast.Rule) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	expr, ok := w.failed[position{rule.Location.File, rule.Location.Row}]
	if !ok {
		return "It is not true."
	}
	text, _, more := strings.Cut(string(expr.Location.Text), "\n")
	if more || len(text) > compile.MaxMessage {
		text = strings.ToValidUTF8(text[:min(len(text), compile.MaxMessage)], "") + "…"
	}
	return fmt.Sprintf("%s:%d: %s", expr.Location.File, expr.Location.Row, text)
}

// caseTracer notes the cases of one test as they begin. Each test has its own, since
// the names are read from the values of variables, which the shared watcher does not
// ask for.
type caseTracer struct{ names []string }

// Enabled is always true.
func (c *caseTracer) Enabled() bool { return true }

// Config asks for the values of variables: the names of cases are such.
func (c *caseTracer) Config() topdown.TraceConfig { return topdown.TraceConfig{PlugLocalVars: true} }

// TraceEvent takes the name of a case, or the first of several.
func (c *caseTracer) TraceEvent(e topdown.Event) {
	expr, ok := e.Node.(*ast.Expr)
	if !ok || e.Op != topdown.TestCaseOp || len(c.names) >= maxCases {
		return
	}
	if names, ok := expr.Operand(0).Value.(*ast.Array); ok && names.Len() > 0 {
		c.names = append(c.names, caseName(names.Elem(0)))
	}
}

// caseName writes the name of a case as it is the key in the test's value.
func caseName(term *ast.Term) string {
	if s, ok := term.Value.(ast.String); ok {
		return string(s)
	}
	return term.String()
}

// printout keeps what one test prints. It implements print.Hook.
type printout struct{ strings.Builder }

// Print adds a line, as long as there is room.
func (p *printout) Print(_ print.Context, line string) error {
	if p.Len()+len(line) < maxPrinted {
		p.WriteString(line)
		p.WriteByte('\n')
	}
	return nil
}

// Coverage says which rows tests evaluated.
type Coverage struct {
	// Percent is the share of the rows with rules and expressions.
	Percent float64
	// NotCovered :: file → the rows that no test evaluated, in order.
	NotCovered map[string][]int
}

func coverageOf(c *cover.Cover, modules map[string]*ast.Module) *Coverage {
	report := c.Report(modules)
	out := &Coverage{Percent: report.Coverage, NotCovered: make(map[string][]int)}
	for name, file := range report.Files {
		for _, r := range file.NotCovered {
			for row := r.Start.Row; row <= r.End.Row; row++ {
				if rows := out.NotCovered[name]; len(rows) == 0 || rows[len(rows)-1] < row {
					out.NotCovered[name] = append(rows, row)
				}
			}
		}
	}
	return out
}

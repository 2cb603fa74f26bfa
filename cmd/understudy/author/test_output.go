package author

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"understudy/admin/report"
	"understudy/cmd/understudy/terminal"
	"understudy/rego/regotest"
)

// testedFile is what `test --format json` says of one file.
//
// The names of the fields are part of the output; all files are in one array.
type testedFile struct {
	// File is the argument as it was given.
	File string `json:"file"`
	// Tests are those of all modules.
	Tests []testedRule `json:"tests"`
	// Coverage is there with --coverage.
	Coverage *testedCovered `json:"coverage,omitempty"`
}

// testedRule is one test_ rule.
type testedRule struct {
	// Name is like data.web_test.test_get.
	Name string `json:"name"`
	// Result is PASS, FAIL, ERROR or SKIP.
	Result regotest.Outcome `json:"result"`
	// Module and Row are where the rule begins.
	Module string `json:"module"`
	Row    int    `json:"row"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
	// Reason is the expression that failed last, or the error.
	Reason string `json:"reason,omitempty"`
	// Cases are the outcomes of a rule with several, by their keys.
	Cases map[string]regotest.Outcome `json:"cases,omitempty"`
	// Output is what it printed.
	Output string `json:"output,omitempty"`
}

// testedCovered is what the tests have evaluated.
type testedCovered struct {
	// Percent is of the rows that can be evaluated.
	Percent float64 `json:"percent"`
	// NotCovered :: module → rows, in order.
	NotCovered map[string][]int `json:"notCovered"`
}

// resultOf is the report of a file as JSON has it.
func resultOf(name string, report regotest.Report) testedFile {
	out := testedFile{File: name, Tests: make([]testedRule, 0, len(report.Tests))}
	for _, t := range report.Tests {
		out.Tests = append(out.Tests, testedRule{
			Name: t.Name, Result: t.Outcome, Module: t.File, Row: t.Row, Seconds: t.Duration.Seconds(),
			Reason: t.Reason, Cases: t.Cases, Output: t.Output,
		})
	}
	if c := report.Coverage; c != nil {
		out.Coverage = &testedCovered{c.Percent, c.NotCovered}
	}
	return out
}

// print shows the tests of a file for people, as `go test` does.
//
// The line of a file comes behind those of its tests, as `go test` has it.
func (f *testFlags) print(name string, ran regotest.Report) {
	bad, skipped, total := 0, 0, time.Duration(0)
	for _, t := range ran.Tests {
		total += t.Duration
		switch {
		case t.Bad():
			bad++
		case t.Outcome == regotest.Skipped:
			skipped++
		}
		if t.Bad() || f.verbose {
			f.printTest(t)
		}
	}
	counts := report.Counted(int64(len(ran.Tests)), "test")
	if bad > 0 {
		counts = fmt.Sprintf("%d of %d tests do not pass", bad, len(ran.Tests))
	}
	if skipped > 0 {
		counts += fmt.Sprintf(", %d skipped", skipped)
	}
	word := f.colour.Green("ok  ")
	switch {
	case bad > 0:
		word = f.colour.Red("FAIL")
	case len(ran.Tests) == 0:
		word = f.colour.Yellow("none")
	}
	fmt.Fprintf(f.out, "%s  %s  %s  %s\n", word, name, counts, total.Round(time.Microsecond))
	f.printCoverage(ran.Coverage)
}

// printTest shows one test. Names of cases and reasons are texts of the policy, and
// escaped.
//
// What a test prints is that of print() in Rego, line by line.
func (f *testFlags) printTest(t regotest.Test) {
	word := f.colour.Yellow(string(t.Outcome))
	switch t.Outcome {
	case regotest.Passed:
		word = f.colour.Green("PASS")
	case regotest.Failed, regotest.Errored:
		word = f.colour.Red(string(t.Outcome))
	}
	fmt.Fprintf(f.out, "--- %s: %s  %s:%d (%s)\n", word, t.Name, terminal.Escape(t.File), t.Row, t.Duration.Round(time.Microsecond))
	for _, name := range slices.Sorted(maps.Keys(t.Cases)) {
		if f.verbose || t.Cases[name] != regotest.Passed {
			fmt.Fprintf(f.out, "    %s: %s\n", t.Cases[name], terminal.Escape(name))
		}
	}
	if t.Reason != "" {
		fmt.Fprintln(f.out, "    "+terminal.Escape(t.Reason))
	}
	for line := range strings.Lines(t.Output) {
		fmt.Fprint(f.out, f.colour.Dim("    | ")+line)
	}
}

// printCoverage names the rows that no test has evaluated.
//
// Rows and not lines of text: those without an expression, such as comments, do not count.
func (f *testFlags) printCoverage(c *regotest.Coverage) {
	if c == nil {
		return
	}
	fmt.Fprintf(f.out, "      coverage: %.1f%% of the rows\n", c.Percent)
	for _, module := range slices.Sorted(maps.Keys(c.NotCovered)) {
		fmt.Fprintf(f.out, "      not covered: %s:%s\n", terminal.Escape(module), ranges(c.NotCovered[module]))
	}
}

// ranges writes rows in order as 1-3,7.
//
// A module of hundreds of rows that nothing covers is one range.
func ranges(rows []int) string {
	var out []string
	for i := 0; i < len(rows); {
		j := i
		for j+1 < len(rows) && rows[j+1] == rows[j]+1 {
			j++
		}
		if i == j {
			out = append(out, fmt.Sprint(rows[i]))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", rows[i], rows[j]))
		}
		i = j + 1
	}
	return strings.Join(out, ",")
}

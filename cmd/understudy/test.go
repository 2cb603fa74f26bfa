package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego"
)

// testFlags is what `test` can be told.
type testFlags struct {
	source           sourceFlags
	run, format      string
	timeout          time.Duration
	verbose, cover   bool
	allowNone        bool
	only             *regexp.Regexp
	out              io.Writer
	colour           palette
	in               io.Reader
	tests, bad, none int
}

func newTest() *cobra.Command {
	var f testFlags
	cmd := &cobra.Command{
		Use:   "test FILE...",
		Short: "Run the tests of a policy: its test_ rules",
		Long: `Run the tests of policies: the rules named test_… of their modules, as 'opa test' does.

A FILE is a policy or an experiment as 'understudy apply -f' reads it, or an OPA
bundle, a folder or a .rego file as 'understudy import' reads it; each is tested by
itself, with its own data, and compiled as a server would. A rule named todo_test_…
is skipped. A test that is undefined or not true fails, and the expression that
failed last is shown.

The exit code is 0 if all tests pass, 1 if one does not or a FILE has none (see
--allow-none), and 2 if a flag or a file makes no sense.`,
		Example: `  understudy test policy.yaml
  understudy test ./policy -v --run 'authz_test.test_admin'
  understudy test web.yaml web-next.yaml --format json --coverage`,
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.in, f.out, f.colour = cmd.InOrStdin(), cmd.OutOrStdout(), paletteFor(cmd.OutOrStdout())
			return f.all(cmd.Context(), args)
		},
	}
	flags := cmd.Flags()
	f.source.bind(flags)
	flags.StringVar(&f.run, "run", "", "run only tests whose name, such as data.web_test.test_get, matches")
	flags.StringVarP(&f.format, "format", "o", "text", "text or json")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Second, "the longest time for one test")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show the tests that pass, too, and what they print")
	flags.BoolVar(&f.cover, "coverage", false, "show which rows no test has evaluated")
	flags.BoolVar(&f.allowNone, "allow-none", false, "a FILE without tests is no failure")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// testedFile is what `test --format json` says of one file.
type testedFile struct {
	File     string         `json:"file"`
	Tests    []testedRule   `json:"tests"`
	Coverage *testedCovered `json:"coverage,omitempty"`
}

type testedRule struct {
	Name    string                  `json:"name"`
	Result  rego.Outcome            `json:"result"`
	Module  string                  `json:"module"`
	Row     int                     `json:"row"`
	Seconds float64                 `json:"seconds"`
	Reason  string                  `json:"reason,omitempty"`
	Cases   map[string]rego.Outcome `json:"cases,omitempty"`
	Output  string                  `json:"output,omitempty"`
}

type testedCovered struct {
	Percent    float64          `json:"percent"`
	NotCovered map[string][]int `json:"notCovered"`
}

// all tests every file, and fails if one does.
func (f *testFlags) all(ctx context.Context, names []string) (err error) {
	if !oneOf(f.format, "text", "json") {
		return usage(errors.New("--format: it is text or json"))
	}
	if f.timeout <= 0 {
		return usage(errors.New("--timeout: it is a duration above zero, such as 5s"))
	}
	if f.only, err = regexp.Compile(f.run); err != nil {
		return usage(fmt.Errorf("--run: %w", err))
	}
	results := make([]testedFile, 0, len(names))
	for _, name := range names {
		report, err := f.file(ctx, name)
		if err != nil {
			return err
		}
		f.count(report)
		results = append(results, resultOf(name, report))
		if f.format == "text" {
			f.print(name, report)
		}
	}
	if f.format == "json" {
		encoder := json.NewEncoder(f.out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(results); err != nil {
			return err
		}
	}
	return f.verdict()
}

func (f *testFlags) count(report rego.TestReport) {
	f.tests += len(report.Tests)
	for _, t := range report.Tests {
		if t.Bad() {
			f.bad++
		}
	}
	if len(report.Tests) == 0 {
		f.none++
	}
}

func (f *testFlags) verdict() error {
	switch {
	case f.bad > 0:
		return fmt.Errorf("%d of %d tests do not pass", f.bad, f.tests)
	case f.none > 0 && !f.allowNone && f.run != "" && f.tests > 0:
		return nil // the pattern chose tests of other files
	case f.none > 0 && !f.allowNone:
		return errors.New("there are no tests to run: a test is a rule like test_get_is_allowed if { … }; or pass --allow-none")
	}
	return nil
}

// file reads, compiles and tests one file.
func (f *testFlags) file(ctx context.Context, name string) (rego.TestReport, error) {
	policy, err := f.read(ctx, name)
	if err != nil {
		return rego.TestReport{}, err
	}
	if _, err := authz.Compile(ctx, policy); err != nil {
		return rego.TestReport{}, explain(name, err)
	}
	report, err := authz.RunTests(ctx, policy, rego.TestOptions{
		Run: f.only, Timeout: f.timeout, Parallel: runtime.NumCPU(), Print: true, Coverage: f.cover,
	})
	if err != nil {
		return report, explain(name, err)
	}
	return report, nil
}

// read reads a policy, the policy of an experiment, or a bundle.
func (f *testFlags) read(ctx context.Context, name string) (*adminpb.Policy, error) {
	if oneOf(filepath.Ext(name), ".yaml", ".yml", ".json") {
		policy, err := readPolicy(name, f.in)
		if err != nil {
			return nil, usage(fmt.Errorf("%s: %w", name, err))
		}
		return policy, nil
	}
	options, err := f.source.options()
	if err != nil {
		return nil, err
	}
	bundle, err := readBundle(ctx, name, f.in, options)
	if err != nil {
		return nil, explain(name, err)
	}
	encoded, err := json.Marshal(bundle.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := admin.CheckExact("data", encoded); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	data := &structpb.Struct{}
	return &adminpb.Policy{Modules: bundle.Modules, Data: data}, protojson.Unmarshal(encoded, data)
}

// readPolicy reads a file of `apply`.
func readPolicy(name string, stdin io.Reader) (*adminpb.Policy, error) {
	content, err := readFile(name, stdin)
	if err != nil {
		return nil, err
	}
	resource, err := readResourceText(content, fromFolder(filepath.Dir(name)))
	if err != nil {
		return nil, err
	}
	const hint = "a policy and an experiment have the fields of the API"
	if experiment := (&adminpb.PolicyExperiment{}); resource.has("policy") {
		if err := resource.decode(experiment, hint); err != nil {
			return nil, fmt.Errorf("it is neither a Policy nor a PolicyExperiment: %w", err)
		}
		return experiment.Policy, nil
	}
	policy := &adminpb.Policy{}
	if err := resource.decode(policy, hint); err != nil {
		return nil, fmt.Errorf("it is neither a Policy nor a PolicyExperiment: %w", err)
	}
	return policy, nil
}

func resultOf(name string, report rego.TestReport) testedFile {
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
func (f *testFlags) print(name string, report rego.TestReport) {
	bad, skipped, total := 0, 0, time.Duration(0)
	for _, t := range report.Tests {
		total += t.Duration
		switch {
		case t.Bad():
			bad++
		case t.Outcome == rego.Skipped:
			skipped++
		}
		if t.Bad() || f.verbose {
			f.printTest(t)
		}
	}
	counts := testCount(len(report.Tests))
	if bad > 0 {
		counts = fmt.Sprintf("%d of %d tests do not pass", bad, len(report.Tests))
	}
	if skipped > 0 {
		counts += fmt.Sprintf(", %d skipped", skipped)
	}
	word := f.colour.green("ok  ")
	switch {
	case bad > 0:
		word = f.colour.red("FAIL")
	case len(report.Tests) == 0:
		word = f.colour.yellow("none")
	}
	fmt.Fprintf(f.out, "%s  %s  %s  %s\n", word, name, counts, total.Round(time.Microsecond))
	f.printCoverage(report.Coverage)
}

func (f *testFlags) printTest(t rego.Test) {
	word := f.colour.yellow(string(t.Outcome))
	switch t.Outcome {
	case rego.Passed:
		word = f.colour.green("PASS")
	case rego.Failed, rego.Errored:
		word = f.colour.red(string(t.Outcome))
	}
	fmt.Fprintf(f.out, "--- %s: %s  %s:%d (%s)\n", word, t.Name, onTerminal(t.File), t.Row, t.Duration.Round(time.Microsecond))
	for _, name := range slices.Sorted(maps.Keys(t.Cases)) {
		if f.verbose || t.Cases[name] != rego.Passed {
			fmt.Fprintf(f.out, "    %s: %s\n", t.Cases[name], onTerminal(name))
		}
	}
	if t.Reason != "" {
		fmt.Fprintln(f.out, "    "+onTerminal(t.Reason))
	}
	for line := range strings.Lines(t.Output) {
		fmt.Fprint(f.out, f.colour.dim("    | ")+line)
	}
}

func (f *testFlags) printCoverage(c *rego.Coverage) {
	if c == nil {
		return
	}
	fmt.Fprintf(f.out, "      coverage: %.1f%% of the rows\n", c.Percent)
	for _, module := range slices.Sorted(maps.Keys(c.NotCovered)) {
		fmt.Fprintf(f.out, "      not covered: %s:%s\n", onTerminal(module), ranges(c.NotCovered[module]))
	}
}

// ranges writes rows in order as 1-3,7.
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

func testCount(n int) string {
	if n == 1 {
		return "1 test"
	}
	return fmt.Sprintf("%d tests", n)
}

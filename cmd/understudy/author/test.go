package author

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin/content"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/resourcefile"
	"understudy/cmd/understudy/terminal"
	"understudy/rego/bundle"
	"understudy/rego/regotest"
)

// testFlags are the flags of `test`, and what it has counted.
// testFlags is also what reads a file for `explain-cost`.
type testFlags struct {
	// source says how bundles and folders are read.
	source sourceFlags
	// run is a pattern of names, format text or json.
	run, format string
	// timeout bounds each test.
	timeout time.Duration
	// verbose shows tests that pass too; cover shows rows that none has evaluated.
	verbose, cover bool
	// allowNone takes a file without tests for one that passes.
	allowNone bool
	// only is run, compiled.
	only   *regexp.Regexp
	out    io.Writer
	colour terminal.Palette
	in     io.Reader
	// tests are all that ran, bad those that did not pass, and none the files without any.
	tests, bad, none int
}

// NewTest makes the command that runs tests as a server with --require-passing-tests does,
// so that its result is known before anything is sent.
//
// The flags have the names of `opa test`, as far as there are such.
func NewTest() *cobra.Command {
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
		Args: command.Arguments(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.in, f.out, f.colour = cmd.InOrStdin(), cmd.OutOrStdout(), terminal.PaletteFor(cmd.OutOrStdout())
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

// all tests every file, and fails if one does.
func (f *testFlags) all(ctx context.Context, names []string) (err error) {
	if !command.OneOf(f.format, "text", "json") {
		return command.Usage(errors.New("--format: it is text or json"))
	}
	if f.timeout <= 0 {
		return command.Usage(errors.New("--timeout: it is a duration above zero, such as 5s"))
	}
	// An empty pattern matches every name.
	if f.only, err = regexp.Compile(f.run); err != nil {
		return command.Usage(fmt.Errorf("--run: %w", err))
	}
	// Not nil: without files it would be null as JSON.
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
		if err := terminal.WriteValue(f.out, results); err != nil {
			return err
		}
	}
	return f.result()
}

// count adds a file to the totals.
//
// A skipped test is counted, and is none that is bad.
func (f *testFlags) count(report regotest.Report) {
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

// result is the error of the whole run, nil if all is well. No tests are a failure:
// otherwise a misspelt name would pass in CI for ever.
func (f *testFlags) result() error {
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
//
// It is compiled first as a server would: a policy that no server takes has no tests that
// pass.
//
// Tests run in parallel, as many at a time as there are processors. Each has the time of --timeout.
func (f *testFlags) file(ctx context.Context, name string) (regotest.Report, error) {
	policy, err := f.read(ctx, name)
	if err != nil {
		return regotest.Report{}, err
	}
	if _, err := authz.Compile(ctx, policy); err != nil {
		return regotest.Report{}, explain(name, err)
	}
	report, err := authz.RunTests(ctx, policy, regotest.Options{
		Run: f.only, Timeout: f.timeout, Parallel: runtime.NumCPU(), Print: true, Coverage: f.cover,
	})
	if err != nil {
		return report, explain(name, err)
	}
	return report, nil
}

// read reads a policy, the policy of an experiment, or a bundle.
//
// The end of the name says which of them it is; see the package comment.
func (f *testFlags) read(ctx context.Context, name string) (*adminpb.Policy, error) {
	if command.OneOf(filepath.Ext(name), ".yaml", ".yml", ".json") {
		policy, err := readPolicy(name, f.in)
		if err != nil {
			return nil, command.Usage(fmt.Errorf("%s: %w", name, err))
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
	return policyOf(name, bundle)
}

// policyOf returns a bundle as a policy without rules.
//
// Numbers of the data that a policy does not keep exactly are refused, as a server refuses them.
func policyOf(name string, from *bundle.Bundle) (*adminpb.Policy, error) {
	encoded, err := json.Marshal(from.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := content.CheckExact("data", encoded); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	data := &structpb.Struct{}
	return &adminpb.Policy{Modules: from.Modules, Data: data}, protojson.Unmarshal(encoded, data)
}

// readPolicy reads the policy of a file of `apply`.
func readPolicy(name string, stdin io.Reader) (*adminpb.Policy, error) {
	experiment, err := readExperiment(name, stdin)
	return experiment.GetPolicy(), err
}

// readExperiment reads a file of `apply`. A policy is one of an experiment of which nothing else is known.
//
// Modules that the file names with @ are read from its folder. A file with a field policy is an
// experiment.
func readExperiment(name string, stdin io.Reader) (*adminpb.PolicyExperiment, error) {
	content, err := command.ReadFile(name, stdin)
	if err != nil {
		return nil, err
	}
	resource, err := resourcefile.Read(content, resourcefile.FromFolder(filepath.Dir(name)))
	if err != nil {
		return nil, err
	}
	const hint = "a policy and an experiment have the fields of the API"
	if experiment := (&adminpb.PolicyExperiment{}); resource.Has("policy") {
		if err := resource.Decode(experiment, hint); err != nil {
			return nil, fmt.Errorf("it is neither a Policy nor a PolicyExperiment: %w", err)
		}
		return experiment, nil
	}
	policy := &adminpb.Policy{}
	if err := resource.Decode(policy, hint); err != nil {
		return nil, fmt.Errorf("it is neither a Policy nor a PolicyExperiment: %w", err)
	}
	return &adminpb.PolicyExperiment{Policy: policy}, nil
}

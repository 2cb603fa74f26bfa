package author

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/resourcefile"
	"understudy/cmd/understudy/terminal"
	"understudy/rego"
	"understudy/rego/bundle"
)

// usualDecision is the rule that opa-envoy-plugin asks unless it is configured otherwise.
//
// It is the plugin's default for path, so a bundle that was made for it usually has this rule.
const usualDecision = "envoy/authz/allow"

// importFlags are the flags of `import`.
// importFlags is also used by `lock` and `replay`, for [importFlags.choose].
type importFlags struct {
	// source says how the bundle is read.
	source sourceFlags
	// client is used with --apply; its streams are those of the command.
	client cli.Client
	// id is what it becomes, write the file that is written instead of standard output.
	id, write string
	// rules are paths, in the order of the chain.
	rules []string
	// opaConfig is a file of OPA's that names rules, and ignored are its settings that are left out.
	opaConfig string
	ignored   []string
	// withoutTests leaves out *_test.rego.
	withoutTests bool
	// apply sends the policy to the admin API.
	apply bool
	// options are for the API.
	options cli.ApplyOptions
}

// NewImport makes the command for those who come from opa-envoy-plugin. What it prints is
// a file for `apply -f`, so that the policy can be read, changed and kept under version
// control from the first day on.
//
// It is the only command that knows OPA's configuration. After it, a policy is one of ours.
func NewImport() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import BUNDLE|FOLDER",
		Short: "Make a policy of an OPA bundle or of a folder with Rego and data",
		Long: `Make a policy of an OPA bundle (tar.gz, - is standard input), of a folder with .rego
files and data.json, data.yaml or data.yml, or of one .rego file.

It is printed in the form that 'understudy apply -f' reads, or with --apply sent to
the admin API right away: as the policy that --id names, or as an experiment of one
with an ID like web/next. It is compiled first, so what is printed can be applied.

Data is nested by folders as OPA does, and the roots of a .manifest hold. The rules
of the policy are those of --rule or of OPA's configuration (--opa-config); without
them it is envoy/authz/allow. Tests (*_test.rego) come along, so that 'understudy
test' and a server with --require-passing-tests can run them; --no-tests leaves
them out.

With --opa-config the rules of mask_decision and drop_decision shape the decision log
here too: a module of package system.log forwards to them. All other settings are
listed by name, with what to use instead. A setting that hides data and cannot be
carried over is an error; --ignore KEY imports without it.

A policy is Rego v1. Modules of v0 are refused unless --v0-compatible translates
them. A signed bundle needs the key that verifies it (--verification-key), or
--skip-verify. Bundles of WebAssembly or plans, and delta bundles, are refused.`,
		Example: `  understudy import bundle.tar.gz > web.yaml
  understudy import ./policy --rule mesh/authz/allow --rule mesh/quota/allow
  curl -s https://bundles.example/web.tar.gz | understudy import - --opa-config opa.yaml --id web --apply
  understudy import ./policy --id web/next --apply     # as an experiment: try it first`,
		Args: command.Arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.client.Attach(cmd)
			return f.run(cmd.Context(), args[0])
		},
	}
	f.bind(cmd)
	return cmd
}

// bind declares the flags; those of the connection are the same as of the commands of the
// API.
func (f *importFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.source.bind(flags)
	f.client.BindConnection(flags)
	f.client.BindWait(flags)
	flags.StringVar(&f.id, "id", "", "the policy, such as web, or the experiment, such as web/next, that it is to be")
	flags.StringVarP(&f.client.Output, "output", "o", "yaml", "yaml or json")
	flags.StringVarP(&f.write, "write", "w", "", "the file to write instead of standard output")
	flags.StringArrayVar(&f.rules, "rule", nil, "a rule that decides, such as envoy/authz/allow; may be repeated, the first denial ends the chain")
	flags.StringVar(&f.opaConfig, "opa-config", "", "OPA's configuration: the rule that decides, and those that mask and drop events of the decision log")
	flags.StringArrayVar(&f.ignored, "ignore", nil, "import without this setting of --opa-config, such as decision_logs.mask_decision, `KEY` being its full name; a section, such as services, silences its notes; may be repeated")
	flags.BoolVar(&f.withoutTests, "no-tests", false, "leave out modules of files like authz_test.rego")
	flags.BoolVar(&f.apply, "apply", false, "send it to the admin API as --id")
	f.options.BindReplace(flags)
	flags.BoolVar(&f.options.ValidateOnly, "validate-only", false, "with --apply: check everything and change nothing")
	_ = cmd.MarkFlagFilename("opa-config", "yaml", "yml", "json")
	_ = cmd.MarkFlagFilename("verification-key")
	command.CompleteOutput(cmd, "yaml", "json")
}

// check refuses flags that make no sense together.
//
// Each pair would leave one of them without an effect.
func (f *importFlags) check() error {
	switch {
	case !command.OneOf(f.client.Output, "yaml", "json"):
		return command.Usage(errors.New("--output: it is yaml or json"))
	case f.apply && f.id == "":
		return command.Usage(errors.New("--id is required with --apply: it names the policy, such as web, or the experiment, such as web/next"))
	case f.options.ValidateOnly && !f.apply:
		return command.Usage(errors.New("--validate-only: it goes with --apply; without it nothing is changed anyway"))
	case f.apply && f.write != "":
		return command.Usage(errors.New("--write: it does not go with --apply"))
	case f.opaConfig == "" && len(f.ignored) > 0:
		return command.Usage(errors.New("--ignore: it goes with --opa-config, whose settings it leaves out"))
	}
	return nil
}

// run reads, chooses the rules, compiles, and prints or sends. Nothing is written before
// it has compiled: a file that does not apply helps nobody.
func (f *importFlags) run(ctx context.Context, name string) error {
	if err := f.check(); err != nil {
		return err
	}
	options, err := f.source.options()
	if err != nil {
		return err
	}
	options.WithoutTests = f.withoutTests
	// Modules are parsed here, so syntax errors come before the choice of rules.
	bundle, err := readBundle(ctx, name, f.client.In, options)
	if err != nil {
		return explain(name, err)
	}
	if f.opaConfig != "" {
		if err := f.carryOver(ctx, name, bundle); err != nil {
			return err
		}
	}
	rules, err := f.choose(ctx, bundle)
	if err != nil {
		return err
	}
	document := &imported{from: name, id: f.id, file: f.write, rules: rules, bundle: bundle}
	if err := document.compile(ctx); err != nil {
		return err
	}
	// What was translated is worth a look: v0 and v1 differ in more than syntax.
	if n := len(bundle.Translated); n > 0 {
		fmt.Fprintf(f.client.Err, "%d modules were translated from Rego v0: %s\n", n, terminal.Escape(strings.Join(bundle.Translated, ", ")))
	}
	if f.apply {
		return f.send(ctx, document)
	}
	return f.print(document)
}

// carryOver makes the rules that OPA's configuration names a part of the policy, and prints what it
// has in addition.
func (f *importFlags) carryOver(ctx context.Context, from string, b *bundle.Bundle) error {
	config, err := readOPAConfig(f.opaConfig, f.ignored)
	if err == nil {
		f.rules, err = config.chooseRules(f.rules)
	}
	if err != nil {
		return command.Usage(err)
	}
	notes, err := config.carryInto(ctx, b)
	var modules *rego.CompileError
	if errors.As(err, &modules) {
		return explain(from, err)
	}
	if err != nil {
		return command.Usage(fmt.Errorf("--opa-config: %w", err))
	}
	for _, note := range notes {
		fmt.Fprintln(f.client.Err, "note: "+terminal.Escape(note))
	}
	return nil
}

// choose returns the paths of the rules that decide.
//
// A bundle does not say which of its rules decide: --rule or OPA's configuration does. A guess would
// be a policy that allows or denies for the wrong reason, so rules that look like decisions are only
// named in the error.
func (f *importFlags) choose(ctx context.Context, from *bundle.Bundle) ([]string, error) {
	if len(f.rules) > 0 {
		paths := make([]string, len(f.rules))
		for i, rule := range f.rules {
			paths[i] = rulePath(rule)
		}
		return paths, nil
	}
	// These are complete rules of the shapes that Envoy's result may have: true, or an object with
	// allowed.
	decisions, err := rego.Decisions(ctx, from.Modules)
	switch {
	case err != nil:
		return nil, err
	case slices.Contains(decisions, usualDecision):
		return []string{usualDecision}, nil
	case len(decisions) == 0:
		return nil, command.Usage(fmt.Errorf("there is no rule %s, and none that looks like a decision: name it with --rule", usualDecision))
	}
	return nil, command.Usage(fmt.Errorf("there is no rule %s: name the rule that decides with --rule. These look like decisions:\n  %s",
		usualDecision, strings.Join(decisions, "\n  ")))
}

// rulePath takes data.a.b and /a/b for a/b.
func rulePath(rule string) string {
	// The older option `query` of the plugin has dots, and the newer one, `path`, slashes.
	if dotted, ok := strings.CutPrefix(rule, "data."); ok && !strings.Contains(rule, "/") {
		return strings.ReplaceAll(dotted, ".", "/")
	}
	return strings.Trim(rule, "/")
}

// send applies the policy, or the experiment.
//
// It goes the way of `apply`, with its output and exit codes.
func (f *importFlags) send(ctx context.Context, document *imported) error {
	encoded, err := document.resource()
	if err != nil {
		return err
	}
	if err := f.client.Connect(); err != nil {
		return command.Usage(err)
	}
	defer func() { _ = f.client.Conn.Close() }()
	return f.client.ApplyResource(ctx, f.client.Name(f.id), &resourcefile.Resource{Encoded: encoded, From: "the bundle"}, f.options)
}

// print writes the file that `apply -f` reads. A file is written when all is known
// to be well.
func (f *importFlags) print(document *imported) error {
	content, err := document.yaml()
	if f.client.Output == "json" {
		content, err = document.json()
	}
	if err != nil {
		return err
	}
	if f.write != "" {
		// A policy is no secret: everybody who may read the repository reads it.
		return os.WriteFile(f.write, content, 0o644)
	}
	_, err = f.client.Out.Write(content)
	return err
}

package author

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"understudy/admin/policyfile"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/rego/bundle"
)

// lockFlags are the flags of `lock`.
// lockFlags has no connection: a lock is made without a server.
type lockFlags struct {
	// source says how the folder or bundle is read.
	source sourceFlags
	// name is that of the policy; write is a file instead of standard output.
	name, write string
	// rules are the run list, in its order.
	rules []string
	// withoutTests leaves out *_test.rego.
	withoutTests bool
}

// NewLock makes the command that turns a folder into a lock: one document, with a hash
// that says what is in it. Data has no place in it, and is refused rather than lost.
//
// Chef's tools make locks of cookbooks. This one makes one of Rego, which they can push and show.
func NewLock() *cobra.Command {
	var f lockFlags
	cmd := &cobra.Command{
		Use:   "lock FOLDER|BUNDLE",
		Short: "Make a Policyfile lock (RFC-042) of a folder with Rego or of an OPA bundle",
		Long: `Make a Policyfile lock (RFC-042) of a folder with .rego files, of one such file, or
of an OPA bundle (tar.gz, - is standard input). It is printed; 'understudy push' makes
it active in a policy group, and so does any client of Chef's Policyfile API.

Each module is a cookbook, named by its package: envoy.authz. Its text is in the
field rego, and its identifier is the SHA-256 of that. A rule that decides is a recipe
of the run list, recipe[envoy.authz::allow], in the order of --rule: the first that
denies ends the chain. The revision_id is the hash of all that. So the same folder
gives the same lock, and a lock that was changed by hand is refused.

What is locked is compiled first. A lock has no place for data: write it into a
module.`,
		Example: `  understudy lock ./policy --name web > web.lock.json
  understudy lock ./policy --name web --rule mesh/authz/allow --rule mesh/quota/allow -w web.lock.json
  understudy push dev web.lock.json`,
		Args: command.Arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	f.source.bind(flags)
	flags.StringVar(&f.name, "name", "", "the name of the policy (default that of the folder or file)")
	flags.StringVarP(&f.write, "write", "w", "", "the file to write instead of standard output")
	flags.StringArrayVar(&f.rules, "rule", nil, "a rule that decides, such as envoy/authz/allow; may be repeated, the first denial ends the chain")
	flags.BoolVar(&f.withoutTests, "no-tests", false, "leave out modules of files like authz_test.rego")
	_ = cmd.MarkFlagFilename("write", "json")
	_ = cmd.MarkFlagFilename("verification-key")
	return cmd
}

// run writes the lock if all of it is well.
func (f *lockFlags) run(cmd *cobra.Command, from string) error {
	options, err := f.source.options()
	if err != nil {
		return err
	}
	options.WithoutTests = f.withoutTests
	bundle, err := readBundle(cmd.Context(), from, cmd.InOrStdin(), options)
	if err != nil {
		return explain(from, err)
	}
	document, err := f.lock(cmd.Context(), from, bundle)
	if err != nil {
		return err
	}
	if f.write != "" {
		return os.WriteFile(f.write, document, 0o644)
	}
	_, err = cmd.OutOrStdout().Write(document)
	return err
}

// lock makes the document, and compiles it as the server will.
//
// The document is parsed again as the server will parse it, so that what is printed is accepted: names,
// hashes and the policy that is made of it.
func (f *lockFlags) lock(ctx context.Context, from string, content *bundle.Bundle) ([]byte, error) {
	if len(content.Data) > 0 {
		return nil, fmt.Errorf("%s has data (%s), for which a lock has no place: write it into a module", from,
			strings.Join(slices.Sorted(maps.Keys(content.Data)), ", "))
	}
	name, err := f.policyName(from)
	if err != nil {
		return nil, err
	}
	// The rules that decide are chosen as `import` does.
	rules, err := (&importFlags{rules: f.rules}).choose(ctx, content)
	if err != nil {
		return nil, err
	}
	document, err := policyfile.Compose(ctx, name, content.Modules, rules)
	if problem := (*policyfile.Problem)(nil); errors.As(err, &problem) {
		return nil, command.Usage(fmt.Errorf("--name %s: %w", name, err))
	}
	if err != nil {
		return nil, explain(from, err)
	}
	lock, err := policyfile.Parse(document)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	policy, err := lock.Policy()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if _, err := authz.Compile(ctx, policy); err != nil {
		return nil, explain(from, err)
	}
	return document, nil
}

// policyName is what the lock is called.
//
// The name of a folder or a file is a good one. That of . is the name of the folder that one is in.
func (f *lockFlags) policyName(from string) (string, error) {
	if f.name != "" {
		return f.name, nil
	}
	absolute, err := filepath.Abs(from)
	if from == "-" || err != nil {
		return "", command.Usage(errors.New("--name is required: standard input does not say how the policy is called"))
	}
	name, _, _ := strings.Cut(filepath.Base(absolute), ".")
	return name, nil
}

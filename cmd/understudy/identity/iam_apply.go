package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"cloud.google.com/go/iam/apiv1/iampb"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/access"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// newIAMApply makes the command that makes bindings what a file says.
//
// It is for bindings that are kept in a repository: what is there is what holds, and what was done
// by hand is shown as a difference. A resource that the file does not name is left alone, so that
// several teams can have a file each.
func newIAMApply() *cobra.Command {
	var file string
	var validateOnly, yes bool
	cmd, _ := cli.NewCommand(cli.Help{
		Use:   "apply -f FILE",
		Short: "Make the bindings of several resources what a file says",
		Long: `The file has all bindings of each resource that it names, as YAML or JSON:

  projects/shop:
    owner: [group:https://login.example.com#platform]
  projects/shop/locations/prod:
    viewer: [allAuthenticated]
    committer: [token:release]

Who is not in the file loses the role there; a resource that is not in it stays as it is.
What would be granted to whom, and taken from whom, is printed, and asked for on a terminal.
A script says --yes. Only what was shown is changed: if somebody changes bindings meanwhile,
those of that resource stay as they are, and the exit code is 1.

` + memberHelp + `

The exit code is 0 if all is as the file says, 1 if it is not, and 2 for a mistake in the file.`,
	},
		cobra.NoArgs, func(c *cli.Client, ctx context.Context, _ []string) error {
			if file == "" {
				return command.Usage(errors.New("--file is required: it has resources with roles and members, as YAML or JSON; - is standard input"))
			}
			text, err := command.ReadFile(file, c.In)
			if err != nil {
				return command.Usage(fmt.Errorf("--file: %w", err))
			}
			wanted, err := readDeclared(text)
			if err != nil {
				return command.Usage(fmt.Errorf("--file: %s: %w", file, err))
			}
			return applyDeclared(ctx, c, wanted, validateOnly, yes)
		})
	cmd.Example = `  understudy iam apply -f iam.yaml
  understudy iam apply -f iam.yaml --validate-only
  understudy iam apply -f iam.yaml --yes -o json`
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "the bindings as YAML or JSON; - is standard input (required)")
	f.BoolVar(&validateOnly, "validate-only", false, "show what would change, and change nothing")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json")
	return cmd
}

// The states of a resource.
const (
	// stateUnchanged is the end for a resource that has what the file says, stateChanged for one that was
	// changed, and stateWouldChange until then, and for good with --validate-only.
	stateUnchanged   = "unchanged"
	stateChanged     = "changed"
	stateWouldChange = "would change"
)

// difference is what becomes of the bindings of one resource.
//
// Its JSON is the output with -o json, an element of "resources".
type difference struct {
	Resource string `json:"resource"`
	// State is one of the states above.
	State string `json:"state"`
	// Granted and Taken are never nil: programs get an empty list.
	Granted []bound `json:"granted"`
	Taken   []bound `json:"taken"`
	// Etag is that of the bindings, before the change if there was none yet.
	Etag []byte `json:"etag"`
	// wanted are the bindings that the resource is to have.
	wanted []*iampb.Binding
}

// applyDeclared shows what changes, asks, and changes it.
//
// Everything is read before anything is asked, and asked before anything is written. So the person
// who says yes has seen every change, and a mistake in the last resource changes none of the others.
func applyDeclared(ctx context.Context, c *cli.Client, wanted []declared, validateOnly, yes bool) error {
	all, err := compareAll(ctx, c, wanted)
	if err != nil {
		return err
	}
	// With -o json standard output has the result alone; people read what is asked on standard error.
	shown := c.Out
	if c.Output == "json" {
		shown = c.Err
	}
	printDifferences(shown, all)
	// A copy: the result lists those that are unchanged, too.
	changing := slices.DeleteFunc(slices.Clone(all), func(d *difference) bool { return d.State == stateUnchanged })
	if len(changing) > 0 && !validateOnly {
		// Without a terminal and without --yes this is an error: a pipeline has to say what it wants.
		if err := c.Confirm(yes, "Change these bindings?"); err != nil {
			return err
		}
		if err := setAll(ctx, c, shown, changing); err != nil {
			return err
		}
	}
	if c.Output == "json" {
		return terminal.WriteValue(c.Out, map[string]any{"resources": all})
	}
	_, err = fmt.Fprintln(c.Out, summaryOf(all, validateOnly))
	return err
}

// summaryOf is the last line of the text.
//
// It always begins with one of the words unchanged, valid and changed, for scripts.
func summaryOf(all []*difference, validateOnly bool) string {
	count := map[string]int{}
	for _, d := range all {
		count[d.State]++
	}
	switch {
	case count[stateUnchanged] == len(all):
		return "unchanged: all is as the file says"
	case validateOnly:
		return fmt.Sprintf("valid; nothing was changed: the bindings of %d of %d resources would be", count[stateWouldChange], len(all))
	}
	return fmt.Sprintf("changed: the bindings of %d of %d resources", count[stateChanged], len(all))
}

// compareAll reads the bindings of all resources before any is changed: anyone who may not change
// one changes none.
//
// Reading bindings and setting them are permissions of their own, so both are asked for.
func compareAll(ctx context.Context, c *cli.Client, wanted []declared) ([]*difference, error) {
	all := make([]*difference, len(wanted))
	for i, w := range wanted {
		policy, err := c.IAM.GetIamPolicy(ctx, &iampb.GetIamPolicyRequest{Resource: w.resource})
		if err != nil {
			return nil, err
		}
		if err := maySet(ctx, c, w.resource); err != nil {
			return nil, err
		}
		all[i] = compare(w, policy)
	}
	return all, nil
}

// maySet returns an error if the caller may read the bindings of a resource, and not set them.
//
// The answer may be out of date when the change is made; that is refused by the server then. It is
// asked here so that a file about five resources is not half applied because of the sixth.
func maySet(ctx context.Context, c *cli.Client, resource string) error {
	// The permission is that of the server's own table. It has one for each method.
	need, _ := access.NeedOf(iampb.IAMPolicy_SetIamPolicy_FullMethodName)
	needed := string(need.On(resource))
	answer, err := c.IAM.TestIamPermissions(ctx, &iampb.TestIamPermissionsRequest{Resource: resource, Permissions: []string{needed}})
	if err != nil {
		return err
	}
	if !slices.Contains(answer.Permissions, needed) {
		return fmt.Errorf("nothing was changed: you have no permission '%s' on %s", needed, resource)
	}
	return nil
}

// compare is the difference between what a file says and what is stored.
//
// Both sides are sorted, by role and then by member, so that what is printed has one order whatever
// the order of the file or of the store is.
func compare(w declared, policy *iampb.Policy) *difference {
	d := &difference{Resource: w.resource, State: stateWouldChange, Granted: []bound{}, Taken: []bound{}, Etag: policy.Etag}
	var stored []bound
	for _, b := range policy.Bindings {
		for _, member := range b.Members {
			stored = append(stored, bound{access.Role(b.Role), member})
		}
	}
	slices.SortFunc(stored, compareBound)
	for _, b := range stored {
		if !slices.Contains(w.bindings, b) {
			d.Taken = append(d.Taken, b)
		}
	}
	// What is wanted is all that the resource has afterwards, the unchanged part of it included.
	for _, b := range w.bindings {
		d.want(b)
		if !slices.Contains(stored, b) {
			d.Granted = append(d.Granted, b)
		}
	}
	if len(d.Granted)+len(d.Taken) == 0 {
		d.State = stateUnchanged
	}
	return d
}

// want adds a member to what the resource is to have. Members come role by role.
func (d *difference) want(b bound) {
	if n := len(d.wanted); n == 0 || d.wanted[n-1].Role != string(b.Role) {
		d.wanted = append(d.wanted, &iampb.Binding{Role: string(b.Role)})
	}
	last := d.wanted[len(d.wanted)-1]
	last.Members = append(last.Members, b.Member)
}

// printDifferences writes a line for each resource, and for each member that gains or loses a
// role there.
//
// A member is a text that somebody chose, and may have characters that control a terminal.
func printDifferences(w io.Writer, all []*difference) {
	for _, d := range all {
		if d.State == stateUnchanged {
			fmt.Fprintf(w, "%s: unchanged\n", d.Resource)
			continue
		}
		fmt.Fprintf(w, "%s:\n", d.Resource)
		for _, b := range d.Granted {
			fmt.Fprintf(w, "  + %s is granted to %s\n", shownRole(string(b.Role)), terminal.Escape(b.Member))
		}
		for _, b := range d.Taken {
			fmt.Fprintf(w, "  - %s is taken from %s\n", shownRole(string(b.Role)), terminal.Escape(b.Member))
		}
	}
}

// setAll changes the bindings of policies first, then of locations, then of projects: who owns a
// project and gives that up keeps it until the rest is done.
//
// There is no transaction over several resources. If one fails, those before it stay changed, are
// named, and need nothing to be undone: to run the command again goes on from there.
func setAll(ctx context.Context, c *cli.Client, shown io.Writer, changing []*difference) error {
	slices.SortStableFunc(changing, func(a, b *difference) int {
		// The name of a policy has more slashes than that of a location.
		return strings.Count(b.Resource, "/") - strings.Count(a.Resource, "/")
	})
	var members []string
	for n, d := range changing {
		policy, err := c.IAM.SetIamPolicy(ctx, &iampb.SetIamPolicyRequest{
			Resource: d.Resource, Policy: &iampb.Policy{Bindings: d.wanted, Etag: d.Etag},
		})
		if err != nil {
			for _, done := range changing[:n] {
				fmt.Fprintf(c.Err, "%s was changed before that\n", done.Resource)
			}
		}
		switch {
		// Not tried again: the bindings are others than those that were shown.
		case status.Code(err) == codes.Aborted:
			return fmt.Errorf("the bindings of %s were changed by somebody else meanwhile, and stay so: run it again to see what the file changes now", d.Resource)
		case err != nil:
			return err
		}
		d.State, d.Etag = stateChanged, policy.Etag
		for _, b := range d.Granted {
			members = append(members, b.Member)
		}
	}
	// At the end and once, since it asks the server for the names of its tokens.
	warnOfUnknown(ctx, c, members...)
	return nil
}

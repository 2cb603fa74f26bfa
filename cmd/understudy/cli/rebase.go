package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"understudy/admin/policydiff"
	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/terminal"
	"understudy/rego/change"
)

// rebaseFlags are the flags of `rebase`, of which each says what is done with the result.
type rebaseFlags struct {
	apply, keep, yes bool
	dir              string
}

// newRebase brings what the live policy has changed into an experiment.
func newRebase() *cobra.Command {
	var f rebaseFlags
	cmd, _ := newChange(Help{"rebase EXPERIMENT", "Bring what the live policy has changed into an experiment",
		`An experiment is made from the policy that is live when it is created, its base. A commit
undoes what the live policy has changed since then and the experiment does not have: its
report says so first, and no requirement is met with that.

This command merges the two: modules line by line, as git does, data value by value, and
the list of filters by its elements. It shows what the experiment gets, and changes
nothing. --apply writes the result to the server; --dir writes it to files, for git. What
both have changed at one place is a conflict, which only people can resolve: --dir writes
modules with both versions of those lines. A change that has no effect where it would be
merged, for example in a rule that the experiment does not call any more, has to be made by
people, too.

If the experiment has such changes in other words, or is to undo them, --keep leaves its
content as it is and makes the live policy its base. It lists what is given up and asks;
in a script, --yes is needed.
` + nameHelp},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			name, err := c.experiment(args[0])
			if err != nil {
				return err
			}
			if f.keep {
				return c.keepContent(ctx, name, f.yes)
			}
			return c.rebase(ctx, name, f)
		})
	cmd.Example = `  understudy rebase shop/tighter
  understudy rebase shop/tighter --apply
  understudy rebase shop/tighter --dir ./policy`
	cmd.Flags().BoolVar(&f.apply, "apply", false, "write the result to the server")
	cmd.Flags().StringVar(&f.dir, "dir", "", "write the result to files in this `FOLDER`: experiment.json, and the modules")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "leave the content as it is, and make the live policy its base")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "with --keep, do not ask; needed without a terminal if changes are given up")
	cmd.MarkFlagsMutuallyExclusive("apply", "dir", "keep")
	_ = cmd.MarkFlagDirname("dir")
	return cmd
}

// rebased is an experiment with what the live policy has changed since its base.
type rebased struct {
	before, after *adminpb.PolicyExperiment
	// same says that it has all of that already.
	same      bool
	conflicts []policydiff.Conflict
	// lacks are the changes of the live policy that have no effect in the merged policy, such as those of a rule that
	// it does not call any more.
	lacks []*adminpb.Report_TakenBackChange
}

// unresolved reports whether people have to do something before the merge has all that the live policy has.
func (r *rebased) unresolved() bool { return len(r.conflicts)+len(r.lacks) > 0 }

// rebase merges the live policy into an experiment.
func (c *Client) rebase(ctx context.Context, name string, f rebaseFlags) error {
	r, err := c.merged(ctx, name)
	switch {
	case err != nil:
		return err
	case r == nil:
		_, err = fmt.Fprintln(c.Err, c.short(name)+" is made from the live policy: there is nothing to bring in")
		return err
	case f.dir != "":
		return c.writeRebased(r, f.dir)
	case len(r.conflicts) > 0:
		c.showConflicts(r)
		return fmt.Errorf("nothing was changed: %s; resolve them in files, which --dir writes", conflictsOf(r))
	case f.apply && len(r.lacks) > 0:
		c.showLacks(r)
		return errors.New("nothing was changed: make these changes where the experiment needs them, in files, which --dir writes, or give them up with --keep")
	case f.apply:
		op, err := c.update(ctx, r, false)
		return c.finish(ctx, op, err)
	default:
		return c.showRebased(ctx, r)
	}
}

// merged merges the live policy into an experiment; nil if it has not changed since the base.
func (c *Client) merged(ctx context.Context, name string) (*rebased, error) {
	before, err := c.policies.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: name})
	if err != nil {
		return nil, err
	}
	live, err := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: string(authz.ResourceName(name).Policy())})
	if err != nil || live.Revision == before.BaseRevision {
		return nil, err
	}
	base, err := c.baseOf(ctx, before)
	if err != nil {
		return nil, err
	}
	r := &rebased{before: before, after: proto.CloneOf(before)}
	r.after.BaseRevision = live.Revision
	r.after.Policy, r.conflicts = policydiff.Merge(base, live, before.Policy)
	r.same = policydiff.Of(before.Policy, r.after.Policy).Equal()
	if len(r.conflicts) == 0 {
		r.lacks, err = lacking(ctx, base, live, r.after.Policy)
	}
	return r, err
}

// lacking returns the changes of the live policy since a base that have no effect in a policy that they were merged into.
func lacking(ctx context.Context, base, live, merged *adminpb.Policy) ([]*adminpb.Report_TakenBackChange, error) {
	var lists [3]*change.List
	for i, versions := range [3][2]*adminpb.Policy{{base, live}, {base, merged}, {merged, live}} {
		list, err := authz.EffectiveItems(ctx, versions[0], versions[1])
		if err != nil {
			return nil, err
		}
		lists[i] = list
	}
	return report.TakenBack(lists[0], lists[1], lists[2]), nil
}

// baseOf returns the content that an experiment was made from.
func (c *Client) baseOf(ctx context.Context, e *adminpb.PolicyExperiment) (*adminpb.Policy, error) {
	const byHand = ": bring the changes that its report lists into its file, then call rebase --keep"
	if e.BaseRevision == "" {
		return nil, errors.New("an earlier version of the server has created " + c.short(e.Name) + ", so its base is not known" + byHand)
	}
	revision, err := c.policies.GetPolicyRevision(ctx, &adminpb.GetPolicyRevisionRequest{Name: e.BaseRevision})
	if status.Code(err) == codes.NotFound {
		return nil, errors.New("the base of " + c.short(e.Name) + ", revision " + shortID(e.BaseRevision) + ", is not kept any more" + byHand)
	}
	return revision.GetSnapshot(), err
}

// update writes a merged experiment to the server, or has it checked only.
func (c *Client) update(ctx context.Context, r *rebased, validateOnly bool) (*longrunningpb.Operation, error) {
	mask := []string{"base_revision"}
	if !r.same {
		mask = append(mask, "policy")
	}
	return c.policies.UpdatePolicyExperiment(ctx, &adminpb.UpdatePolicyExperimentRequest{
		PolicyExperiment: r.after, UpdateMask: &fieldmaskpb.FieldMask{Paths: mask}, ValidateOnly: validateOnly,
	})
}

// showRebased shows what an experiment would get, once the server says that it is a valid policy.
func (c *Client) showRebased(ctx context.Context, r *rebased) error {
	if _, err := c.update(ctx, r, true); err != nil {
		return fmt.Errorf("the merged policy is not valid: %w", err)
	}
	if c.Output == "json" {
		return c.print(r.after)
	}
	if r.same {
		fmt.Fprintln(c.Out, "it has all that the live policy has changed since its base")
	}
	c.showLacks(r)
	writeDifference(c.Out, terminal.PaletteFor(c.Out), r.before.Policy, r.after.Policy, maxDifference)
	fmt.Fprintf(c.Err, "nothing was changed; `understudy rebase %s --apply` does that, and its counts begin anew\n", c.short(r.before.Name))
	return nil
}

// showLacks lists the changes of the live policy that the merge does not bring into effect.
func (c *Client) showLacks(r *rebased) {
	if len(r.lacks) == 0 {
		return
	}
	n := int64(len(r.lacks))
	fmt.Fprintf(c.Err, "%s of the live policy would have no effect in the merged policy, or another one:\n", report.Counted(n, "change"))
	for _, text := range verdict.TakenBack(&adminpb.Report{TakenBackCount: &n, TakenBackChanges: r.lacks}) {
		fmt.Fprintf(c.Err, "  %s\n", terminal.Line(text))
	}
}

// showConflicts shows what the three versions have where they conflict.
func (c *Client) showConflicts(r *rebased) {
	for _, conflict := range r.conflicts {
		fmt.Fprintf(c.Err, "conflict in %s\n", terminal.Line(conflict.Path))
		for _, version := range []struct{ name, text string }{{"base", conflict.Base}, {"live policy", conflict.Live}, {"experiment", conflict.Own}} {
			fmt.Fprintf(c.Err, "  %s:\n", version.name)
			for line := range strings.Lines(version.text) {
				fmt.Fprintf(c.Err, "    %s\n", moduleLine(strings.TrimSuffix(line, "\n")))
			}
		}
	}
}

// conflictsOf is "2 conflicts".
func conflictsOf(r *rebased) string { return report.Counted(int64(len(r.conflicts)), "conflict") }

// keepContent names the live revision as the base of an experiment, after it has shown what that gives up.
func (c *Client) keepContent(ctx context.Context, name string, yes bool) error {
	live, err := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: string(authz.ResourceName(name).Policy())})
	if err != nil {
		return err
	}
	r, err := c.report(ctx, name, nil)
	if err != nil {
		return err
	}
	if r.PolicyEtag != live.Etag {
		return errors.New("nothing was changed: the live policy has just changed; try again")
	}
	if err := c.confirmKeep(r, yes); err != nil {
		return err
	}
	op, err := c.policies.UpdatePolicyExperiment(ctx, &adminpb.UpdatePolicyExperimentRequest{
		PolicyExperiment: &adminpb.PolicyExperiment{Name: name, BaseRevision: live.Revision},
		UpdateMask:       &fieldmaskpb.FieldMask{Paths: []string{"base_revision"}},
	})
	return c.finish(ctx, op, err)
}

// confirmKeep asks whether changes of the live policy are given up.
func (c *Client) confirmKeep(r *adminpb.Report, yes bool) error {
	if !report.TakesBack(r) {
		return nil
	}
	var b strings.Builder
	for _, text := range verdict.TakenBack(r) {
		fmt.Fprintf(&b, "  %s\n", terminal.Line(text))
	}
	text := "the experiment does not have " + report.Counted(r.GetTakenBackCount(), "change") + " of the live policy:\n" + b.String()
	switch {
	case yes:
		fmt.Fprint(c.Err, "note: "+text)
	case !c.interactive():
		return errors.New("nothing was changed: " + text + "bring them in with --apply, or give them up with --keep --yes")
	case !c.ask("Note: " + text + "A commit undoes them, and nothing says so any more. Go on?"):
		return errors.New("nothing was changed")
	}
	return nil
}

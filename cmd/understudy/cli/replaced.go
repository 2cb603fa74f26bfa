package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/content"
	"understudy/admin/history"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// ApplyOptions are how a resource is applied.
type ApplyOptions struct {
	// ValidateOnly changes nothing.
	ValidateOnly bool
	// Force replaces a live policy that somebody else has changed.
	Force bool
	// ParentRevision is the revision from which the policy was made, or the beginning of its ID; empty if that is not
	// known. A live policy of another revision is not replaced.
	ParentRevision string
	// Undelete restores a policy that is deleted, and updates it.
	Undelete bool
}

// BindReplace declares the flags about the live policy.
func (o *ApplyOptions) BindReplace(flags *pflag.FlagSet) {
	flags.BoolVar(&o.Force, "force", false, "replace a live policy that somebody else has changed")
	command.BindCondition(flags, &o.ParentRevision, command.ParentRevision, "replace the live policy only if it is of this revision, from which the file was made")
	flags.BoolVar(&o.Undelete, "undelete", false, "if the policy is deleted, restore it and apply the file to it")
}

// mostReplaceTries is how often the live policy is looked at again, if it changes between the look and the update.
const mostReplaceTries = 5

// replacePolicy makes an update of a policy, or creates it if there is none. What the update replaces is read before, and
// has to be the same then, unless the file names the version by its etag.
func (c *Client) replacePolicy(
	ctx context.Context, r *adminpb.UpdatePolicyRequest, o ApplyOptions,
) (before existingResource, op *longrunningpb.Operation, err error) {
	given := r.Policy.Etag
	guarded := given == "" && !o.Force
	for try := 1; ; try++ {
		r.Policy.Etag = given
		before, op, err = c.replaceOnce(ctx, r, o, guarded)
		if try == mostReplaceTries || !hasChanged(err, guarded) {
			return before, op, err
		}
	}
}

// replaceOnce is a try of replacePolicy. guarded says that only what is read here is replaced.
func (c *Client) replaceOnce(
	ctx context.Context, r *adminpb.UpdatePolicyRequest, o ApplyOptions, guarded bool,
) (before existingResource, op *longrunningpb.Operation, err error) {
	live, missing := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: r.Policy.Name})
	before = existingResource{etag: live.GetEtag(), err: missing}
	switch {
	case isAbsent(live, missing) && o.ParentRevision != "":
		return before, nil, fmt.Errorf("nothing was changed: there is no live policy %s, and the file was made from its revision %s", c.short(r.Policy.Name), o.ParentRevision)
	case status.Code(missing) == codes.NotFound && r.Policy.Etag == "":
		op, err = c.createPolicy(ctx, r)
		return before, op, err
	case missing == nil && live.DeleteTime != nil:
		return c.replaceDeleted(ctx, live, r, o)
	case guarded && missing == nil:
		if err := c.mayReplace(ctx, live, r.Policy, o); err != nil {
			return before, nil, err
		}
		r.Policy.Etag = live.Etag
	}
	op, err = c.policies.UpdatePolicy(ctx, r)
	return before, op, err
}

// isAbsent reports whether a policy that was asked for does not exist, or is deleted.
func isAbsent(live *adminpb.Policy, err error) bool {
	return status.Code(err) == codes.NotFound || err == nil && live.DeleteTime != nil
}

// hasChanged reports whether a change failed because the resource is not as it was read. guarded says that the etag is that
// of the resource that was read.
func hasChanged(err error, guarded bool) bool {
	code := status.Code(err)
	return code == codes.AlreadyExists || guarded && code == codes.Aborted
}

// mayReplace returns an error if the live policy has a change that the new content may not have: if somebody else than
// the caller made it live, or by another method than an apply. On a terminal it asks.
func (c *Client) mayReplace(ctx context.Context, live, replacement *adminpb.Policy, o ApplyOptions) error {
	id := authz.ResourceName(live.Revision).ID()
	if own, err := content.RevisionID(replacement); err == nil && own == id {
		return nil
	}
	if o.ParentRevision != "" && strings.HasPrefix(id, o.ParentRevision) {
		return nil
	}
	revision, err := c.policies.GetPolicyRevision(ctx, &adminpb.GetPolicyRevisionRequest{Name: live.Revision})
	if err != nil {
		return err
	}
	if o.ParentRevision != "" {
		return fmt.Errorf("nothing was changed: the live policy is revision %s, and not %s; put its change into the file", describeRevision(revision), o.ParentRevision)
	}
	who, err := c.WhoAmI(ctx)
	if err != nil || history.IsAppliedBy(who.Principal, revision) {
		return err
	}
	return c.confirmReplace(revision, o.ValidateOnly && c.interactive() || who.Principal == "")
}

// confirmReplace asks whether a revision is to be replaced, or just notes that it is.
func (c *Client) confirmReplace(revision *adminpb.PolicyRevision, noted bool) error {
	text := "this replaces revision " + describeRevision(revision)
	switch {
	case noted:
		fmt.Fprintln(c.Err, "note: "+text)
	case !c.interactive():
		return errors.New("nothing was changed: " + text +
			"; put its change into the file and name the revision with --parent-revision " + shortID(revision.Name) + ", or replace it with --force")
	case !c.ask("The live policy was not applied by you: " + text + ".\nReplace it?"):
		return errors.New("nothing was changed")
	}
	return nil
}

// describeRevision names a revision, with how it became live, by whom and when: "a0ee1ccd (commit of next by token:root,
// 2m0s ago)".
func describeRevision(r *adminpb.PolicyRevision) string {
	text := shortID(r.Name)
	if len(r.Activations) == 0 {
		return text
	}
	last := r.Activations[0]
	text += " (" + terminal.Line(history.Words(last))
	if last.Creator != "" {
		text += " by " + terminal.Line(last.Creator)
	}
	return text + ", " + terminal.Since(last.ActivateTime.AsTime()) + ")"
}

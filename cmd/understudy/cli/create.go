package cli

import (
	"cmp"
	"context"
	"fmt"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/terminal"
)

// createPolicy makes the policy of an update. Of several callers only one creates it, and the others get ALREADY_EXISTS.
//
// A caller who may update but not create gets it by the update.
func (c *Client) createPolicy(ctx context.Context, r *adminpb.UpdatePolicyRequest) (*longrunningpb.Operation, error) {
	name := authz.PolicyName(r.Policy.Name)
	op, err := c.policies.CreatePolicy(ctx, &adminpb.CreatePolicyRequest{
		Parent: string(authz.ResourceName(name).Location()), PolicyId: string(name.ID()), Policy: r.Policy, ValidateOnly: r.ValidateOnly,
	})
	if status.Code(err) != codes.PermissionDenied {
		return op, err
	}
	c.creates = true
	return c.policies.UpdatePolicy(ctx, r)
}

// createExperiment is createPolicy of an experiment.
func (c *Client) createExperiment(ctx context.Context, r *adminpb.UpdatePolicyExperimentRequest) (*longrunningpb.Operation, error) {
	name := authz.ResourceName(r.PolicyExperiment.Name)
	op, err := c.policies.CreatePolicyExperiment(ctx, &adminpb.CreatePolicyExperimentRequest{
		Parent: string(name.Policy()), PolicyExperimentId: name.ID(), PolicyExperiment: r.PolicyExperiment, ValidateOnly: r.ValidateOnly,
	})
	if status.Code(err) != codes.PermissionDenied {
		return op, err
	}
	c.creates = true
	return c.policies.UpdatePolicyExperiment(ctx, r)
}

// replaceExperiment makes an update of an experiment, or creates it if there is none.
func (c *Client) replaceExperiment(
	ctx context.Context, r *adminpb.UpdatePolicyExperimentRequest,
) (before *adminpb.PolicyExperiment, missing error, op *longrunningpb.Operation, err error) {
	name := r.PolicyExperiment.Name
	for try := 1; ; try++ {
		// An experiment that is not there, or cannot be read, has no preview.
		before, missing = c.policies.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: name})
		if status.Code(missing) == codes.NotFound && r.PolicyExperiment.Etag == "" {
			op, err = c.createExperiment(ctx, r)
		} else {
			op, err = c.policies.UpdatePolicyExperiment(ctx, r)
		}
		if try == mostReplaceTries || !hasChanged(err, false) {
			return before, missing, op, c.withoutParent(name, err)
		}
	}
}

// withoutParent adds the fix to the error of an experiment whose policy does not exist.
func (c *Client) withoutParent(experiment string, err error) error {
	if status.Code(err) != codes.NotFound {
		return err
	}
	policy := string(authz.ResourceName(experiment).Policy())
	return &refusal{err, fmt.Sprintf("%s\n  An experiment is one of a policy that exists: create it first with `understudy apply %s -f FILE`.",
		status.Convert(err).Message(), c.short(policy))}
}

// replaceDeleted applies a file to a policy that is deleted: it restores the policy and updates it, in one step.
func (c *Client) replaceDeleted(
	ctx context.Context, deleted *adminpb.Policy, r *adminpb.UpdatePolicyRequest, o ApplyOptions,
) (before existingResource, op *longrunningpb.Operation, err error) {
	before = existingResource{etag: deleted.Etag, undeleted: true}
	if !o.Undelete {
		return before, nil, fmt.Errorf("nothing was changed: the policy %s was deleted at %s; --undelete restores it and applies the file to it",
			c.short(deleted.Name), terminal.When(deleted.DeleteTime))
	}
	r.Policy.Etag, r.Undelete = cmp.Or(r.Policy.Etag, deleted.Etag), true
	op, err = c.policies.UpdatePolicy(ctx, r)
	return before, op, err
}

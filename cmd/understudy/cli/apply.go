package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/resourcefile"
)

// newApply replaces a whole resource: the update mask is *, so what the file leaves out is
// gone. That makes a file in a repository the truth, whatever was there before.
//
// It never deletes: what is in the location and in no file stays there. Applying the same file again
// changes nothing, makes no revision, and says so.
func newApply() *cobra.Command {
	var file string
	var o ApplyOptions
	cmd, c := newChange(Help{"apply NAME -f FILE", "Create or replace a policy or an experiment from a file",
		`The file is the resource as YAML or JSON, as the API has it. A module whose text
begins with @ is read from the file that it names, relative to the first one.

It says whether the resource was created, updated or is unchanged, or with
--validate-only what it would be; in -o json that is the field change. With the field
etag: in the file, only the version with this etag is replaced.

A live policy that somebody else has changed, or that became live by a commit, a
rollback or a promotion, may have a change that the file does not have. It is replaced
after a question on a terminal; in a script with --force, or with --parent-revision (or
parent_revision: in the file) if the file was made from it.

A policy that is deleted is restored only with --undelete, and by the same change.
` + nameHelp + "\n" + configHelp},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			return c.apply(ctx, c.Name(args[0]), file, o)
		})
	cmd.Flags().StringVarP(&file, "file", "f", "", "the resource as YAML or JSON; - is standard input (required)")
	o.BindReplace(cmd.Flags())
	cmd.Flags().BoolVar(&o.ValidateOnly, "validate-only", false, "check everything and change nothing")
	// Its error is that of a flag that does not exist.
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json")
	_ = cmd.RegisterFlagCompletionFunc("parent-revision", func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		return c.completion("apply NAME REVISION")(cmd, args, typed)
	})
	return cmd
}

// apply replaces what clients own of the resource, and creates it if need be.
//
// All mistakes in the file are ones of usage: nothing was sent.
//
// Modules that the file names with @ are read from its folder and from below it, and from nowhere
// else.
func (c *Client) apply(ctx context.Context, name, file string, o ApplyOptions) error {
	resource, err := readResource(file, c.In)
	if err != nil {
		return err
	}
	return c.ApplyResource(ctx, name, resource, o)
}

// readResource reads the file of the flag --file. Its error is one of usage.
func readResource(file string, in io.Reader) (*resourcefile.Resource, error) {
	if file == "" {
		return nil, command.Usage(errors.New("--file is required: it has the resource as YAML or JSON; - is standard input"))
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return nil, command.Usage(fmt.Errorf("--file: %[1]s is a folder: `understudy import %[1]s` makes a policy of one with Rego and data", file))
	}
	text, err := command.ReadFile(file, in)
	if err != nil {
		return nil, command.Usage(fmt.Errorf("--file: %w", err))
	}
	resource, err := resourcefile.Read(text, resourcefile.FromFolder(filepath.Dir(file)))
	if err != nil {
		return nil, command.Usage(fmt.Errorf("--file: %w", err))
	}
	resource.From = "--file"
	return resource, nil
}

// ApplyResource is apply of a resource that was read.
//
// The parent of an experiment's policy is its own policy, so a file need not name it.
//
// A live policy is replaced only if it is the one that was looked at: see [Client.replacePolicy]. An experiment has no
// etag unless the file has one, so the last one who applies it wins.
func (c *Client) ApplyResource(ctx context.Context, name string, r *resourcefile.Resource, o ApplyOptions) error {
	// AIP-134: `*` is all fields, those that are empty included.
	everything := &fieldmaskpb.FieldMask{Paths: []string{"*"}}
	// A configuration is there as soon as its location is named, so it is never created.
	if isConfig(name) {
		config := &adminpb.Config{}
		if err := r.Decode(config, "a configuration has nextLocation and commitRequirements"); err != nil {
			return command.Usage(fmt.Errorf("%s: it is no configuration of a location: %w", r.From, err))
		}
		config.Name = name
		before, missing := c.policies.GetConfig(ctx, &adminpb.GetConfigRequest{Name: name})
		after, err := c.policies.UpdateConfig(ctx, &adminpb.UpdateConfigRequest{Config: config, UpdateMask: everything, ValidateOnly: o.ValidateOnly})
		return c.finishConfig(existingResource{etag: before.GetEtag(), err: missing}, o.ValidateOnly, after, err)
	}
	if isExperiment(name) {
		if o.ParentRevision != "" || r.ParentRevision != "" {
			return command.Usage(errors.New("--parent-revision is for policies: an experiment replaces nothing that is live, and its report and commit compare it with the live policy of that time"))
		}
		e := &adminpb.PolicyExperiment{}
		if err := r.Decode(e, "what an experiment tries stands below policy"); err != nil {
			return command.Usage(fmt.Errorf("%s: it is no experiment: %w", r.From, err))
		}
		e.Name = name
		if e.Policy != nil && e.Policy.Name == "" {
			e.Policy.Name = string(authz.ResourceName(name).Policy())
		}
		return c.applyExperiment(ctx, &adminpb.UpdatePolicyExperimentRequest{
			PolicyExperiment: e, UpdateMask: everything, AllowMissing: true, ValidateOnly: o.ValidateOnly,
		})
	}
	p := &adminpb.Policy{}
	if err := r.Decode(p, "an experiment is named POLICY/EXPERIMENT, such as web/strict"); err != nil {
		return command.Usage(fmt.Errorf("%s: it is no policy: %w", r.From, err))
	}
	p.Name = name
	o.ParentRevision = cmp.Or(o.ParentRevision, r.ParentRevision)
	before, op, err := c.replacePolicy(ctx, &adminpb.UpdatePolicyRequest{
		Policy: p, UpdateMask: everything, AllowMissing: true, ValidateOnly: o.ValidateOnly,
	}, o)
	if err := c.finishApply(ctx, name, before, op, err); err != nil {
		return err
	}
	c.noteInterpreted(ctx, p)
	if before.change(etagOf(op)) == unchanged {
		return c.checkFollowed(ctx, authz.PolicyName(name))
	}
	return nil
}

// checkFollowed returns an error if sidecars decide by a newer version of a policy than the store has. They do not follow
// an apply that changes nothing. A caller who may not list sidecars gets no error.
func (c *Client) checkFollowed(ctx context.Context, policy authz.PolicyName) error {
	nodes, err := c.nodes(ctx, authz.ResourceName(policy).Location())
	if err != nil {
		return nil
	}
	others := 0
	for _, n := range nodes {
		if _, stale := authz.StalePolicies(n)[policy]; stale {
			others++
		}
	}
	if others == 0 {
		return nil
	}
	return fmt.Errorf("the store has lost a newer version of %s, which is still enforced %s; `understudy restore --accept` has the sidecars follow the store",
		policy.ID(), "on "+report.Counted(int64(others), "sidecar"))
}

// applyExperiment also says that the preview of the version before has ended: an update
// ends it (AIP-236), and nothing is recorded of the new version until it is started.
//
// The note goes to standard error: a pipeline that applies and starts needs no other output.
func (c *Client) applyExperiment(ctx context.Context, r *adminpb.UpdatePolicyExperimentRequest) error {
	name := r.PolicyExperiment.Name
	before, missing, op, err := c.replaceExperiment(ctx, r)
	if err == nil {
		op, err = c.await(ctx, op)
	}
	if err := c.finishApply(ctx, name, existingResource{etag: before.GetEtag(), err: missing}, op, err); err != nil {
		return err
	}
	c.noteInterpreted(ctx, r.PolicyExperiment.Policy)
	var after adminpb.PolicyExperiment
	if before.GetPreviewMetadata().GetState() != adminpb.PolicyPreviewMetadata_ACTIVE || op.GetResponse().UnmarshalTo(&after) != nil ||
		after.GetPreviewMetadata().GetState() == adminpb.PolicyPreviewMetadata_ACTIVE {
		return nil
	}
	if r.ValidateOnly {
		fmt.Fprintf(c.Err, "note: %s is being previewed, and this would end its preview\n", c.short(name))
		return nil
	}
	fmt.Fprintf(c.Err, "note: %[1]s was being previewed, and its preview has ended: `understudy start %[1]s` starts that of this version\n", c.short(name))
	return nil
}

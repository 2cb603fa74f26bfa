package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

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
	var validateOnly bool
	cmd, _ := newChange(Help{"apply NAME -f FILE", "Create or replace a policy or an experiment from a file",
		`The file is the resource as YAML or JSON, as the API has it. A module whose text
begins with @ is read from the file that it names, relative to the first one.

It says whether the resource was created, updated or is unchanged, or with
--validate-only what it would be; in -o json that is the field change.
` + nameHelp + "\n" + configHelp},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			if file == "" {
				return command.Usage(errors.New("--file is required: it has the resource as YAML or JSON; - is standard input"))
			}
			return c.apply(ctx, c.Name(args[0]), file, validateOnly)
		})
	cmd.Flags().StringVarP(&file, "file", "f", "", "the resource as YAML or JSON; - is standard input (required)")
	cmd.Flags().BoolVar(&validateOnly, "validate-only", false, "check everything and change nothing")
	// Its error is that of a flag that does not exist.
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json")
	return cmd
}

// apply replaces what clients own of the resource, and creates it if need be.
//
// All mistakes in the file are ones of usage: nothing was sent.
//
// Modules that the file names with @ are read from its folder and from below it, and from nowhere
// else.
func (c *Client) apply(ctx context.Context, name, file string, validateOnly bool) error {
	content, err := command.ReadFile(file, c.In)
	if err != nil {
		return command.Usage(fmt.Errorf("--file: %w", err))
	}
	resource, err := resourcefile.Read(content, resourcefile.FromFolder(filepath.Dir(file)))
	if err != nil {
		return command.Usage(fmt.Errorf("--file: %w", err))
	}
	resource.From = "--file"
	return c.ApplyResource(ctx, name, resource, validateOnly)
}

// ApplyResource is apply of a resource that was read.
//
// The parent of an experiment's policy is its own policy, so a file need not name it.
//
// What was there before is read to say what has changed, and for nothing else: the update has no
// etag unless the file has one, so the last one who applies wins.
func (c *Client) ApplyResource(ctx context.Context, name string, r *resourcefile.Resource, validateOnly bool) error {
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
		after, err := c.policies.UpdateConfig(ctx, &adminpb.UpdateConfigRequest{Config: config, UpdateMask: everything, ValidateOnly: validateOnly})
		return c.finishConfig(existingResource{before.GetEtag(), missing}, validateOnly, after, err)
	}
	if isExperiment(name) {
		e := &adminpb.PolicyExperiment{}
		if err := r.Decode(e, "what an experiment tries stands below policy"); err != nil {
			return command.Usage(fmt.Errorf("%s: it is no experiment: %w", r.From, err))
		}
		e.Name = name
		if e.Policy != nil && e.Policy.Name == "" {
			e.Policy.Name = string(authz.ResourceName(name).Policy())
		}
		return c.applyExperiment(ctx, &adminpb.UpdatePolicyExperimentRequest{
			PolicyExperiment: e, UpdateMask: everything, AllowMissing: true, ValidateOnly: validateOnly,
		})
	}
	p := &adminpb.Policy{}
	if err := r.Decode(p, "an experiment is named POLICY/EXPERIMENT, such as web/strict"); err != nil {
		return command.Usage(fmt.Errorf("%s: it is no policy: %w", r.From, err))
	}
	p.Name = name
	before, missing := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: name})
	c.creates = status.Code(missing) == codes.NotFound
	op, err := c.policies.UpdatePolicy(ctx, &adminpb.UpdatePolicyRequest{
		Policy: p, UpdateMask: everything, AllowMissing: true, ValidateOnly: validateOnly,
	})
	if err := c.finishApply(ctx, name, existingResource{before.GetEtag(), missing}, op, err); err != nil {
		return err
	}
	c.noteInterpreted(ctx, p)
	return nil
}

// applyExperiment also says that the preview of the version before has ended: an update
// ends it (AIP-236), and nothing is recorded of the new version until it is started.
//
// The note goes to standard error: a pipeline that applies and starts needs no other output.
func (c *Client) applyExperiment(ctx context.Context, r *adminpb.UpdatePolicyExperimentRequest) error {
	name := r.PolicyExperiment.Name
	// One that is not there, or cannot be read, has no preview to speak of.
	before, missing := c.policies.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: name})
	c.creates = status.Code(missing) == codes.NotFound
	op, err := c.policies.UpdatePolicyExperiment(ctx, r)
	if err == nil {
		op, err = c.await(ctx, op)
	}
	if err := c.finishApply(ctx, name, existingResource{before.GetEtag(), missing}, op, err); err != nil {
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

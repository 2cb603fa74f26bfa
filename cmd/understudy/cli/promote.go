package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// promoteFlags are the flags of `promote`.
// promoteFlags has no --etag: a promotion always names the versions that it has read.
type promoteFlags struct{ validateOnly, yes bool }

// newPromote makes live in the next location what is live here, on the server: what goes live
// is what was shown, and not a file that somebody changed in between.
//
// Stages are a chain: each location has one next location, which is stored on the server. So nobody
// promotes into production by a flag that is mistyped.
func newPromote() *cobra.Command {
	var f promoteFlags
	cmd, _ := newChange(Help{"promote [POLICY...]", "Make the policies of a location live in its next one",
		`What is live here becomes live there: the policies that are named, or all that differ,
in one step and without uploading anything. Either all of them are promoted or none.

It shows from where to where, and what differs, asks, and promotes exactly that: the
revisions that it has shown, in place of the policies that it has compared them with.
If one of them has changed since, nothing is promoted. In a script nobody can be asked,
so there it takes --yes. What the next location requires of commits (its config) holds
for promotions as well.

` + stagesHelp}, cobra.ArbitraryArgs, func(c *Client, ctx context.Context, args []string) error {
		return f.run(ctx, c, args)
	})
	cmd.Example = `  understudy promote --location projects/shop/locations/dev web
  understudy promote --location projects/shop/locations/dev web --yes
  understudy promote --location projects/shop/locations/staging --validate-only -o json`
	cmd.Flags().BoolVar(&f.validateOnly, "validate-only", false, "check everything and change nothing")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	return cmd
}

// run shows the promotion, asks, and makes it.
//
// What is shown and what is promoted are the same: the request has the revision of each source and
// the etag of each target, and the server refuses all of it if one is another one by then.
func (f *promoteFlags) run(ctx context.Context, c *Client, args []string) error {
	if !f.yes && !f.validateOnly && !c.interactive() {
		return command.Usage(errors.New("standard input is no terminal, so nobody can be asked: give --yes, or --validate-only to see what would be promoted"))
	}
	p, err := c.readPromotion(ctx, args)
	if err != nil {
		return err
	}
	changed := p.changed()
	// Nothing to do is a success: a pipeline runs it after each merge.
	if len(changed) == 0 {
		return c.showPromotion(p, nil)
	}
	c.showDifference(p, changed)
	if !f.yes && !f.validateOnly && !c.ask(fmt.Sprintf("\nPromote %s to %s?", report.Counted(int64(len(changed)), "policy"), authz.ResourceName(p.to).ID())) {
		return errors.New("nothing was promoted")
	}
	op, err := c.policies.PromotePolicies(ctx, p.request(c.location, f.validateOnly))
	if status.Code(err) == codes.Aborted {
		return &refusal{err, "nothing was promoted, since something has changed after it was shown: " + status.Convert(err).Message() + "\nTo see what it is now, promote again."}
	}
	if err != nil {
		return err
	}
	if op, err = c.await(ctx, op); err != nil {
		return err
	}
	return c.showPromotion(p, op)
}

// promotion is what a promotion is to do, as it was read.
type promotion struct {
	// to is the location that is promoted to.
	to       string
	policies []promotedPolicy
}

// promotedPolicy is a policy on both sides; target is nil if there is none.
//
// Both have one ID: what decides by a name in one stage decides by it in the next one.
type promotedPolicy struct{ source, target *adminpb.Policy }

// id is that of both.
func (p promotedPolicy) id() string { return authz.ResourceName(p.source.Name).ID() }

// change is what becomes of the target. A revision is the hash of its content.
//
// So the same content is unchanged, no matter who put it there and how.
func (p promotedPolicy) change() string {
	switch {
	case p.target == nil:
		return "created"
	case authz.ResourceName(p.target.Revision).ID() == authz.ResourceName(p.source.Revision).ID():
		return "unchanged"
	default:
		return "updated"
	}
}

// changed are the policies whose target changes.
func (p promotion) changed() (out []promotedPolicy) {
	for _, policy := range p.policies {
		if policy.change() != "unchanged" {
			out = append(out, policy)
		}
	}
	return out
}

// request asks for what changes, in the versions that were read.
//
// Those that are the same on both sides are left out: a promotion of them would be a change without a
// difference. An empty etag says that there is no such policy yet.
func (p promotion) request(from string, validateOnly bool) *adminpb.PromotePoliciesRequest {
	r := &adminpb.PromotePoliciesRequest{Parent: from, Destination: p.to, ValidateOnly: validateOnly}
	for _, policy := range p.changed() {
		r.Policies = append(r.Policies, &adminpb.PromotedPolicy{Revision: policy.source.Revision, TargetEtag: policy.target.GetEtag()})
	}
	return r
}

// readPromotion reads the next location, and both sides of the policies that are named, or of
// all that are live.
//
// A policy that is named twice is promoted once.
func (c *Client) readPromotion(ctx context.Context, args []string) (promotion, error) {
	config, err := c.policies.GetConfig(ctx, &adminpb.GetConfigRequest{Name: c.location + "/config"})
	if err != nil {
		return promotion{}, err
	}
	p := promotion{to: config.NextLocation}
	if p.to == "" {
		return p, fmt.Errorf("%s names no next location to promote to: `understudy next LOCATION` sets it", c.location)
	}
	if len(args) == 0 {
		p.policies, err = c.allOfBoth(ctx, p.to)
		return p, err
	}
	named := make(map[string]bool)
	for _, short := range args {
		if name := c.Name(short); !named[name] {
			named[name] = true
			policy, err := c.onBoth(ctx, name, p.to)
			if err != nil {
				return p, err
			}
			p.policies = append(p.policies, policy)
		}
	}
	return p, nil
}

// onBoth reads a policy of this location and that of its ID in another one.
func (c *Client) onBoth(ctx context.Context, name, to string) (promotedPolicy, error) {
	source, err := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: name})
	if err != nil {
		return promotedPolicy{}, err
	}
	target, err := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: string(authz.Location(to).Policy(authz.PolicyName(name).ID()))})
	if status.Code(err) == codes.NotFound {
		return promotedPolicy{source: source}, nil
	}
	return promotedPolicy{source, target}, err
}

// allOfBoth is onBoth of all policies of this location. One that is deleted in the other one
// is none of its list; the server says so.
func (c *Client) allOfBoth(ctx context.Context, to string) ([]promotedPolicy, error) {
	sources, err := c.livePolicies(ctx, c.location)
	if err != nil {
		return nil, err
	}
	targets, err := c.livePolicies(ctx, to)
	if err != nil {
		return nil, err
	}
	there := make(map[string]*adminpb.Policy)
	for _, t := range targets {
		there[authz.ResourceName(t.Name).ID()] = t
	}
	out := make([]promotedPolicy, len(sources))
	for i, s := range sources {
		out[i] = promotedPolicy{s, there[authz.ResourceName(s.Name).ID()]}
	}
	return out, nil
}

// livePolicies lists the policies of a location, and names what it has to leave out.
//
// With their modules and data: what differs in them is shown.
func (c *Client) livePolicies(ctx context.Context, location string) ([]*adminpb.Policy, error) {
	policies, unreadable, err := c.readPolicies(ctx, location, "", adminpb.PolicyView_POLICY_VIEW_FULL)
	c.unreadable(unreadable)
	return policies, err
}

// showDifference shows on standard error what is to be promoted.
func (c *Client) showDifference(p promotion, changed []promotedPolicy) {
	palette := terminal.PaletteFor(c.Err)
	fmt.Fprintf(c.Err, "%s → %s\n", c.location, p.to)
	// All policies share the lines: a person reads so many in all.
	left := maxDifference
	for _, policy := range changed {
		before := "none"
		if policy.target != nil {
			before = shortID(policy.target.Revision)
		}
		fmt.Fprintln(c.Err, palette.Bold(fmt.Sprintf("\n%s: %s → %s", policy.id(), before, shortID(policy.source.Revision))))
		left -= writeDifference(c.Err, palette, policy.target, policy.source, left)
	}
}

// promotedLine is a policy of a promotion, as it is printed for scripts.
//
// The names of its fields are part of the output.
type promotedLine struct {
	// Policy is the one in the location that is promoted to.
	Policy string `json:"policy"`
	// Change is created, updated or unchanged.
	Change string `json:"change"`
	// Revision is the one that is promoted, Replaced the one whose place it takes.
	Revision string `json:"revision"`
	Replaced string `json:"replaced,omitempty"`
	// Operation is done when the sidecars have applied it.
	Operation string `json:"operation,omitempty"`
}

// showPromotion prints what became of each policy. There is no operation if none has changed.
func (c *Client) showPromotion(p promotion, op *longrunningpb.Operation) error {
	if c.Output == "json" {
		return c.printPromotion(p, op)
	}
	summary := "nothing to promote: " + p.to + " has all of it"
	if op != nil {
		summary = c.summaryOf(op)
	}
	if op != nil && !op.Done {
		summary = "stored: " + op.Name
	}
	fmt.Fprintln(c.Out, summary)
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	for _, policy := range p.policies {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", policy.id(), shortID(policy.source.Revision), policy.change())
	}
	return t.Flush()
}

// printPromotion is showPromotion as a list of JSON.
func (c *Client) printPromotion(p promotion, op *longrunningpb.Operation) error {
	lines := []promotedLine{}
	for _, policy := range p.policies {
		line := promotedLine{
			Policy: string(authz.Location(p.to).Policy(authz.PolicyID(policy.id()))), Change: policy.change(), Revision: policy.source.Revision, Replaced: policy.target.GetRevision(),
		}
		if line.Change != "unchanged" {
			line.Operation = op.GetName()
		}
		lines = append(lines, line)
	}
	return terminal.WriteValue(c.Out, lines)
}

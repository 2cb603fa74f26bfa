package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// completionTime bounds what pressing a key may take.
//
// A person waits for it without knowing for what, and presses the key again after that.
const completionTime = 3 * time.Second

// completion completes the first argument of a command, which its use names, and a revision
// as the second one: with what the admin API has. A server that does not answer completes nothing.
//
// A shell shows no errors, and waits: so the time is short, and a failure completes
// nothing.
func (c *Client) completion(use string) cobra.CompletionFunc {
	// Two empty words behind it, for a command without arguments.
	words := append(strings.Fields(use), "", "")
	first, second := strings.Trim(words[1], "[]."), strings.Trim(words[2], "[].")
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		// Only revisions complete a second argument: those of the policy that is the first one.
		revision := len(args) == 1 && second == "REVISION"
		// Files are never completed in place of names: a file of that name would be a surprise.
		if len(args) > 0 && !revision || c.Connect() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer func() { _ = c.Conn.Close() }()
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		if revision {
			return c.revisionIDs(ctx, args[0]), cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		if first == "OPERATION" {
			names = c.operationIDs(ctx)
		}
		if first == "NAME" || first == "POLICY" {
			names = append(names, c.policyIDs(ctx)...)
		}
		if first == "NAME" || first == "EXPERIMENT" {
			names = append(names, c.experimentIDs(ctx)...)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompletePolicy completes the first argument with policies.
//
// It is for commands of other packages, whose use has other words.
func (c *Client) CompletePolicy(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return c.completion("command POLICY")(cmd, args, typed)
}

// CompleteSide completes what can be compared: policies, experiments, revisions behind an @, and
// files.
func (c *Client) CompleteSide(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 || c.Connect() != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	defer func() { _ = c.Conn.Close() }()
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	// Before an @ a file may be meant, too, so the shell adds files to the names.
	policy, _, versioned := strings.Cut(typed, "@")
	if !versioned {
		return append(c.policyIDs(ctx), c.experimentIDs(ctx)...), cobra.ShellCompDirectiveDefault
	}
	var sides []string
	for _, id := range c.revisionIDs(ctx, policy) {
		sides = append(sides, policy+"@"+id)
	}
	return sides, cobra.ShellCompDirectiveNoFileComp
}

// completeRequire completes the last term of a list of requirements with their names.
//
// What is typed before the last comma stays: shells replace the whole word.
func completeRequire(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	var lists []string
	for _, name := range report.Names() {
		lists = append(lists, before+name)
	}
	return lists, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// policyIDs are the policies of the location; none if the server does not answer.
func (c *Client) policyIDs(ctx context.Context) []string {
	// One page: nobody chooses among more.
	all, err := c.policies.ListPolicies(ctx, &adminpb.ListPoliciesRequest{Parent: c.location, PageSize: 1000})
	if err != nil {
		return nil
	}
	var ids []string
	for _, p := range all.Policies {
		ids = append(ids, authz.ResourceName(p.Name).ID())
	}
	return ids
}

// experimentIDs are the experiments of all policies, as POLICY/EXPERIMENT.
//
// One call has those of all policies (AIP-159).
func (c *Client) experimentIDs(ctx context.Context) []string {
	all, err := c.policies.ListPolicyExperiments(ctx, &adminpb.ListPolicyExperimentsRequest{Parent: c.Name("-"), PageSize: 1000})
	if err != nil {
		return nil
	}
	var ids []string
	for _, e := range all.PolicyExperiments {
		ids = append(ids, c.short(e.Name))
	}
	return ids
}

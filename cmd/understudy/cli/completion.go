package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/command"
)

// completionTime bounds what pressing a key may take.
//
// A person waits for it without knowing for what, and presses the key again after that.
const completionTime = 3 * time.Second

// argumentLists :: a word in the use of a command → what completes an argument of its kind.
var argumentLists = map[string][]func(*Client, context.Context) []string{
	"OPERATION":  {(*Client).operationIDs},
	"POLICY":     {(*Client).policyIDs},
	"EXPERIMENT": {(*Client).experimentIDs},
	"NAME":       {(*Client).policyIDs, (*Client).experimentIDs},
	"NODE":       {(*Client).nodeIDs},
	"DATASET":    {(*Client).datasetIDs},
}

// laterLists are the same for an argument of what the first argument names.
var laterLists = map[string]func(c *Client, ctx context.Context, first string) []string{
	"REVISION": (*Client).revisionIDs,
	"VERSION":  (*Client).versionNumbers,
}

// completion completes the arguments of a command, which its use names, with what the admin API has. A server that does
// not answer completes nothing.
//
// A shell shows no errors, and waits: so the time is short, and a failure completes
// nothing.
func (c *Client) completion(use string) cobra.CompletionFunc {
	words := strings.Fields(use)[1:]
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		// Files are never completed in place of names: a file of that name would be a surprise.
		word := wordAt(words, len(args))
		lists, later := argumentLists[word], laterLists[word]
		if len(args) == 0 {
			later = nil
		}
		if lists == nil && later == nil || c.Connect() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer func() { _ = c.Conn.Close() }()
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		if later != nil {
			return later(c, ctx, args[0]), cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, list := range lists {
			names = append(names, list(c, ctx)...)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// wordAt returns what the use of a command calls the argument with an index; empty if there is none. A word with dots
// stands for any number of arguments.
func wordAt(words []string, index int) string {
	if index >= len(words) {
		index = len(words) - 1
		if index < 0 || !strings.Contains(words[index], "...") {
			return ""
		}
	}
	return strings.Trim(words[index], "[].")
}

// completeFlag completes the value of a flag as an argument of a kind.
func (c *Client) completeFlag(cmd *cobra.Command, flag command.FlagValue) {
	complete := c.completion("command " + flag.Value)
	// Its error is that of a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(flag.Flag, func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd, nil, typed)
	})
}

// CompletePolicyFlag completes a flag with policies.
func (c *Client) CompletePolicyFlag(cmd *cobra.Command, flag string) {
	c.completeFlag(cmd, command.FlagValue{Flag: flag, Value: "POLICY"})
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
	for _, name := range append([]string{report.DefaultTerm}, report.Names()...) {
		lists = append(lists, before+name)
	}
	return lists, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// idsOf are the IDs of resources.
func idsOf[R authz.Resource](resources []R) []string {
	var ids []string
	for _, r := range resources {
		ids = append(ids, authz.ResourceName(r.GetName()).ID())
	}
	return ids
}

// policyIDs are the policies of the location; none if the server does not answer.
func (c *Client) policyIDs(ctx context.Context) []string {
	// One page: nobody chooses among more.
	all, err := c.policies.ListPolicies(ctx, &adminpb.ListPoliciesRequest{Parent: c.location, PageSize: 1000})
	if err != nil {
		return nil
	}
	return idsOf(all.Policies)
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

// nodeIDs are the sidecars of the location.
func (c *Client) nodeIDs(ctx context.Context) []string {
	all, err := c.policies.ListNodes(ctx, &adminpb.ListNodesRequest{Parent: c.location, PageSize: 1000})
	if err != nil {
		return nil
	}
	return idsOf(all.Nodes)
}

// datasetIDs are the datasets of the location.
func (c *Client) datasetIDs(ctx context.Context) []string {
	all, err := c.datasets.ListDatasets(ctx, &adminpb.ListDatasetsRequest{Parent: c.location, PageSize: 1000})
	if err != nil {
		return nil
	}
	return idsOf(all.Datasets)
}

// versionNumbers are the versions of a dataset.
func (c *Client) versionNumbers(ctx context.Context, dataset string) []string {
	all, err := c.datasets.ListDatasetVersions(ctx, &adminpb.ListDatasetVersionsRequest{Parent: c.dataset(dataset), PageSize: 1000})
	if err != nil {
		return nil
	}
	return idsOf(all.DatasetVersions)
}

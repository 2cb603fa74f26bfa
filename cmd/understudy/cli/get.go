package cli

import (
	"context"
	"fmt"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/terminal"
)

// nameHelp is in the help of all commands that take a name.
const nameHelp = `A policy is named by its ID, such as web, and an experiment as web/strict; a whole
resource name does as well.`

// PolicyCommands are the commands of the admin API.
//
// They are in the order in which a change goes through them.
func PolicyCommands() []*cobra.Command {
	return []*cobra.Command{
		newList(), newGet(), newApply(), newStart(), newRebase(), newReport(), newAccept(), newWait(), newCommit(), newStop(), newDelete(), newUndelete(),
	}
}

// newGet shows a resource as the API has it, which `apply -f` reads again.
//
// It has the etag, so that to edit what it prints and to apply it fails if somebody else was faster.
func newGet() *cobra.Command {
	cmd, _ := NewCommand(Help{"get NAME", "Show a policy or an experiment as JSON", nameHelp + "\n" + configHelp},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			name := c.Name(args[0])
			if isConfig(name) {
				config, err := c.policies.GetConfig(ctx, &adminpb.GetConfigRequest{Name: name})
				if err != nil {
					return err
				}
				return c.print(config)
			}
			if isExperiment(name) {
				e, err := c.policies.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: name})
				if err != nil {
					return err
				}
				if err := c.print(e); err != nil {
					return err
				}
				c.noteNumbers(ctx, e)
				return nil
			}
			p, err := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: name})
			if err != nil {
				return err
			}
			return c.print(p)
		})
	return cmd
}

// Known reports whether the server has a policy or an experiment of a name. If nobody named a
// server, and none answers at the usual address, there is none that could have it; any other
// error is why it is not known. The client has to be connected.
//
// It is for commands that take names and files alike. There a name that no server has is a file, and
// a server that is away must not turn a name into a file.
func (c *Client) Known(ctx context.Context, short string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, knownTime)
	defer cancel()
	_, err := c.read(ctx, short)
	switch st := status.Convert(err); {
	case err == nil:
		return true, nil
	case st.Code() == codes.NotFound:
		return false, nil
	case st.Code() == codes.Unavailable && len(st.Details()) == 0 && c.addr == usualAddr:
		return false, nil
	}
	return false, c.unanswered(err)
}

// knownTime bounds how long it may take to find out whether the server has a name.
//
// It covers the connection, too. A port where nobody listens is an error at once.
const knownTime = 5 * time.Second

// Policy reads the policy of a name, or that of an experiment, which has the experiment's etag.
// The client has to be connected.
//
// The etag of an experiment is what a commit names, and its policy has none of its own.
func (c *Client) Policy(ctx context.Context, short string) (*adminpb.Policy, error) {
	e, err := c.Experiment(ctx, short)
	return e.GetPolicy(), err
}

// Experiment is Policy with what is around it, which is nothing of a policy that is no experiment's.
func (c *Client) Experiment(ctx context.Context, short string) (*adminpb.PolicyExperiment, error) {
	e, err := c.read(ctx, short)
	return e, c.unanswered(err)
}

// read is Experiment, with the error as the server sent it.
func (c *Client) read(ctx context.Context, short string) (*adminpb.PolicyExperiment, error) {
	name := c.Name(short)
	if !isExperiment(name) {
		p, err := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: name})
		return &adminpb.PolicyExperiment{Policy: p}, err
	}
	e, err := c.policies.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: name})
	if err != nil {
		return nil, err
	}
	e.GetPolicy().Etag = e.GetEtag()
	return e, nil
}

// newList lists policies, or experiments if a policy is named: what is in a location is in
// a policy, so there is no other list.
//
// A list has no modules and no data unless they are asked for: a hundred policies with their data can
// have gigabytes.
func newList() *cobra.Command {
	var f listFlags
	cmd, _ := NewCommand(Help{"list [POLICY]", "List the policies, or the experiments of one policy",
		`With POLICY, its experiments are listed; - lists those of all policies. REQUESTS is how
many were compared by an experiment that is being previewed, and DIFFER how many of
them it would decide differently; ` + "`understudy report`" + ` shows which.

-o json has neither the modules nor the data, unless --full asks for them.`},
		cobra.MaximumNArgs(1), func(c *Client, ctx context.Context, args []string) error {
			// AIP-159: a policy `-` is all policies.
			if len(args) == 0 {
				return c.listPolicies(ctx, f)
			}
			return c.listExperiments(ctx, c.Name(args[0]), f)
		})
	cmd.SuggestFor = []string{"ls", "policies", "experiments"}
	cmd.Flags().StringVar(&f.filter, "filter", "", "an AIP-160 filter, such as 'preview_metadata.state = ACTIVE'")
	cmd.Flags().BoolVar(&f.full, "full", false, "with -o json, the modules and the data as well")
	return cmd
}

// listFlags are the flags of `list`.
type listFlags struct {
	filter string
	full   bool
}

// view is how much of each policy is asked for (AIP-157).
//
// A table needs no contents either way.
func (f listFlags) view() adminpb.PolicyView {
	if f.full {
		return adminpb.PolicyView_POLICY_VIEW_FULL
	}
	return adminpb.PolicyView_POLICY_VIEW_BASIC
}

// listPolicies prints a table, or all pages as one answer in JSON. Stored policies that
// cannot be read are named on standard error (AIP-217): the list of the others is right
// without them.
//
// RECONCILING says that some live sidecar has not applied the last change yet.
func (c *Client) listPolicies(ctx context.Context, f listFlags) error {
	policies, unreadable, err := c.readPolicies(ctx, c.location, f.filter, f.view())
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return c.print(&adminpb.ListPoliciesResponse{Policies: policies, Unreachable: unreadable})
	}
	c.unreadable(unreadable)
	if len(policies)+len(unreadable) == 0 {
		c.noteEmpty(ctx, c.location)
	}
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "POLICY\tRULES\tETAG\tUPDATED\tRECONCILING")
	for _, p := range policies {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%v\n", authz.ResourceName(p.Name).ID(), len(p.Rules), p.Etag, terminal.When(p.UpdateTime), p.Reconciling)
	}
	return t.Flush()
}

// readPolicies reads the policies of a location, and the names of those that cannot be read.
func (c *Client) readPolicies(
	ctx context.Context, location, filter string, view adminpb.PolicyView,
) (policies []*adminpb.Policy, unreadable []string, err error) {
	policies, err = all(func(token string) ([]*adminpb.Policy, string, error) {
		page, err := c.policies.ListPolicies(ctx, &adminpb.ListPoliciesRequest{
			Parent: location, Filter: filter, PageToken: token, PageSize: 1000, View: view,
		})
		unreadable = page.GetUnreachable()
		return page.GetPolicies(), page.GetNextPageToken(), err
	})
	return policies, unreadable, err
}

// listExperiments is listPolicies of the experiments of a policy, or of all with -.
func (c *Client) listExperiments(ctx context.Context, policy string, f listFlags) error {
	var unreadable []string
	experiments, err := all(func(token string) ([]*adminpb.PolicyExperiment, string, error) {
		page, err := c.policies.ListPolicyExperiments(ctx, &adminpb.ListPolicyExperimentsRequest{
			Parent: policy, Filter: f.filter, PageToken: token, PageSize: 1000, View: f.view(),
		})
		unreadable = page.GetUnreachable()
		return page.GetPolicyExperiments(), page.GetNextPageToken(), err
	})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return c.print(&adminpb.ListPolicyExperimentsResponse{PolicyExperiments: experiments, Unreachable: unreadable})
	}
	c.unreadable(unreadable)
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "EXPERIMENT\tSTATE\tREQUESTS\tDIFFER\tETAG\tSTARTED\tUPDATED\tCREATOR")
	reports := c.numbers(ctx, experiments)
	for i, e := range experiments {
		// An experiment without preview metadata was never started (AIP-236).
		state := "never previewed"
		if m := e.PreviewMetadata; m != nil {
			state = m.State.String()
		}
		requests, differ := numbersOf(reports[i])
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.short(e.Name), state, requests, differ, e.Etag,
			terminal.When(e.PreviewMetadata.GetStartTime()), terminal.When(e.UpdateTime), creatorOf(e.Creator, e.CreatorDisplay))
	}
	return t.Flush()
}

const (
	// reportsAtOnce is how many reports are read at the same time for a list.
	// Each costs the server a read of the evidence of one experiment.
	reportsAtOnce = 8
	// reportTime bounds what one may take: a list is worth more than its numbers.
	reportTime = 2 * time.Second
)

// numbers reads the reports of the experiments that are being previewed: one for each, nil
// for all others, and where it cannot be read.
//
// What cannot be read in time is missing from the table, and no error: who may list experiments need
// not have the permission to read reports.
func (c *Client) numbers(ctx context.Context, experiments []*adminpb.PolicyExperiment) []*adminpb.Report {
	reports := make([]*adminpb.Report, len(experiments))
	turns := make(chan struct{}, reportsAtOnce)
	var reading sync.WaitGroup
	for i, e := range experiments {
		if e.PreviewMetadata.GetState() != adminpb.PolicyPreviewMetadata_ACTIVE {
			continue
		}
		turns <- struct{}{}
		reading.Go(func() {
			defer func() { <-turns }()
			ctx, cancel := context.WithTimeout(ctx, reportTime)
			defer cancel()
			if r, err := c.report(ctx, e.Name, nil); err == nil {
				reports[i] = r
			}
		})
	}
	reading.Wait()
	return reports
}

// numbersOf are the columns of a list: the requests compared, and how many differ.
//
// A dash is "not known", which is not 0.
func numbersOf(r *adminpb.Report) (requests, differ string) {
	if r == nil {
		return "-", "-"
	}
	return report.Number(r.RequestCount), verdict.Differing(r)
}

// noteNumbers says on standard error what the preview of an experiment has shown so far,
// next to the resource on standard output, which `apply` reads again.
func (c *Client) noteNumbers(ctx context.Context, e *adminpb.PolicyExperiment) {
	if r := c.numbers(ctx, []*adminpb.PolicyExperiment{e})[0]; r != nil {
		fmt.Fprintf(c.Err, "%[1]s: %[2]s; see `understudy report %[1]s`\n", c.short(e.Name), verdict.Summary(r))
	}
}

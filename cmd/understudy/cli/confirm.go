package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// confirmDelete asks on a terminal before an experiment is deleted, and before a policy is deleted that
// has experiments, which do not come back, or that sidecars apply. Without a terminal only --yes deletes
// something.
//
// Deleting a policy that nothing depends on asks nothing, for it can be undone for 30 days.
//
// Between the answer and the delete an experiment can be added; the etag of the policy does not
// change by that. Who has to be sure names the etag, and takes the right to create away first.
func (c *Client) confirmDelete(ctx context.Context, policy string, yes bool) error {
	if isExperiment(policy) {
		return c.Confirm(yes, c.short(policy)+" will be gone for good, with what was counted for it.\nDelete it?")
	}
	switch {
	case yes:
		return nil
	case !c.interactive():
		return errNoAnswer
	}
	experiments, sidecars, err := c.dependents(ctx, policy)
	if err != nil || experiments+sidecars == 0 {
		return err
	}
	if c.ask(fmt.Sprintf("%s has %s, which will be gone for good, and is applied by %s, which will go over to the default decision.\nDelete it?",
		authz.ResourceName(policy).ID(), report.Counted(int64(experiments), "experiment"), report.Counted(int64(sidecars), "sidecar"))) {
		return nil
	}
	return errors.New("nothing was deleted; --yes deletes it without asking")
}

// errNoAnswer is the error of a change that needs an answer, or --yes, where there is no terminal.
var errNoAnswer = command.Usage(errors.New("nothing was changed: standard input is no terminal, so nobody can be asked; --yes says that it is to be done"))

// interactive reports whether somebody can be asked: standard input is a terminal.
//
// Standard output does not matter: `understudy commit … -o json | jq` is asked, too.
func (c *Client) interactive() bool {
	stdin, ok := c.In.(*os.File)
	return ok && terminal.Is(stdin)
}

// ask asks on the terminal, and reports whether the answer is yes. Everything else is no,
// also the end of the input.
func (c *Client) ask(prompt string) bool {
	fmt.Fprint(c.Err, prompt+" [y/N] ")
	// Nothing reads from standard input after this, so what is buffered is not missed.
	answer, err := bufio.NewReader(c.In).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return err == nil && (answer == "y" || answer == "yes")
}

// Confirm asks whether what was shown is to be done, and returns an error if it is not. Yes is
// the flag that says so beforehand, which a script has to give: nobody can be asked there.
func (c *Client) Confirm(yes bool, prompt string) error {
	switch {
	case yes:
		return nil
	case !c.interactive():
		return errNoAnswer
	case c.ask(prompt):
		return nil
	}
	return errors.New("nothing was changed")
}

// dependents counts the experiments of a policy and the sidecars that apply it.
//
// Sidecars are those that have reported lately: one that is away applies the delete when it is back.
func (c *Client) dependents(ctx context.Context, policy string) (experiments, sidecars int, err error) {
	of, err := all(func(token string) ([]*adminpb.PolicyExperiment, string, error) {
		page, err := c.policies.ListPolicyExperiments(ctx, &adminpb.ListPolicyExperimentsRequest{Parent: policy, PageToken: token, PageSize: 1000})
		return page.GetPolicyExperiments(), page.GetNextPageToken(), err
	})
	if err != nil {
		return 0, 0, err
	}
	nodes, err := c.nodes(ctx, authz.ResourceName(policy).Location())
	for _, n := range nodes {
		if slices.Contains(n.Policies, policy) {
			sidecars++
		}
	}
	return len(of), sidecars, err
}

// nodes returns the sidecars of a location that have reported lately.
func (c *Client) nodes(ctx context.Context, location authz.Location) ([]*adminpb.Node, error) {
	return all(func(token string) ([]*adminpb.Node, string, error) {
		page, err := c.policies.ListNodes(ctx, &adminpb.ListNodesRequest{Parent: string(location), PageToken: token, PageSize: 1000})
		return page.GetNodes(), page.GetNextPageToken(), err
	})
}

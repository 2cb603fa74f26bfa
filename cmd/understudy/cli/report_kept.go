package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"understudy/admin/history"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// A commit ends its experiment, and with it the evidence. What the report was then stays with
// the revision that the commit made live.

// showCommitted prints the report of an experiment as it was committed. missing is the error
// of one that never was.
//
// It looks through the revisions for the commit of that name. If it finds none, or may not read them,
// the answer is what the server said of the experiment.
func (c *Client) showCommitted(ctx context.Context, experiment string, f reportFlags, missing error) error {
	revisions, err := c.readRevisions(ctx, string(authz.ResourceName(experiment).Policy()), "")
	if err != nil {
		return missing
	}
	of, how := history.CommitOf(experiment, revisions)
	if of == nil {
		return missing
	}
	revision, err := c.policies.GetPolicyRevision(ctx, &adminpb.GetPolicyRevisionRequest{Name: of.Name})
	if err != nil {
		return err
	}
	return c.showKept(revision, how, f)
}

// showRevisionReport prints the report that a revision keeps.
//
// A revision keeps the report of the last commit that made it live.
func (c *Client) showRevisionReport(ctx context.Context, policy, given string, f reportFlags) error {
	revision, err := c.Revision(ctx, RevisionOf{policy, given})
	if err != nil {
		return err
	}
	if revision.Report == nil {
		return fmt.Errorf("%s@%s keeps no report: no experiment with its content was committed, or there was none that could be read", policy, shortID(revision.Name))
	}
	_, how := history.CommitOf(strings.TrimSuffix(revision.Report.Name, "/report"), []*adminpb.PolicyRevision{revision})
	return c.showKept(revision, how, f)
}

// showKept prints the report that a revision keeps, and on standard error when that was so.
// Nothing can be asked of it any more.
func (c *Client) showKept(revision *adminpb.PolicyRevision, how *adminpb.PolicyRevision_Activation, f reportFlags) error {
	if f.require != "" || f.watch {
		return command.Usage(errors.New("--require and --watch are for a preview that goes on: it was committed, and this is what it had shown"))
	}
	text := fmt.Sprintf("committed as revision %s", shortID(revision.Name))
	if how != nil {
		text += " at " + terminal.When(how.ActivateTime)
		if how.Creator != "" {
			text += " by " + terminal.Line(how.Creator)
		}
	}
	if revision.Report == nil {
		return fmt.Errorf("it was %s; its report could not be read then", text)
	}
	c.note("%s; this is what its preview had shown then", text)
	if err := c.writeReport(revision.Report, f); err != nil {
		return err
	}
	return met(revision.Report)
}

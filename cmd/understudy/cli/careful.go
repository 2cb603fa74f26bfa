package cli

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/reportview"
	"understudy/cmd/understudy/terminal"
)

// carefulOf returns the default requirements in place of what demands nothing, with its scope.
//
// The scope says which comparisons count; it demands nothing by itself.
func carefulOf(given *adminpb.CommitRequirements) *adminpb.CommitRequirements {
	required := report.Default()
	required.Scope = given.GetScope()
	return required
}

// carefully asks for what a report does not show of the default requirements, or of what decides and those
// that were given say nothing about, and makes the acceptances that it was answered with. Of the request it
// leaves what is still required.
//
// What a location requires is not for the person to accept: it is judged first, and ends the commit.
// Then there are three cases. Nothing is in doubt: a yes is enough. Something is, and somebody is
// there: they accept it with a reason, which is kept. Something is, and --yes was given: nothing is
// committed, since a yes that was given beforehand is no answer to what nobody had seen.
func (f *commitFlags) carefully(
	ctx context.Context, c *Client, request *adminpb.CommitPolicyExperimentRequest, r *adminpb.Report, given *adminpb.CommitRequirements,
) error {
	if text := reportview.Unmet(ofLocation(r)); text != "" {
		return fmt.Errorf("nothing was committed: %s", text)
	}
	d := report.DoubtsOf(r, given)
	switch {
	case f.validateOnly:
		// A validation without requirements validates what the server would do without any.
		if !report.Demands(given) {
			request.Requirements = nil
		}
		return nil
	case d.None() && (f.yes || c.ask("\nCommit it?")):
		return nil
	case d.None():
		return errNothingCommitted
	case f.yes:
		return doubtful(r)
	}
	if err := c.reviewDoubts(ctx, request.Name, r, d); err != nil {
		return err
	}
	// From here the server judges what was not asked about: it is still required, and still judged as the
	// commit is made.
	d.Required.Scope = request.Requirements.Scope
	request.Requirements = d.Required
	return nil
}

// doubtful is the error of a report with doubts where nobody is to be asked about them.
func doubtful(r *adminpb.Report) error {
	unmet := reportview.Unmet(r)
	if unmet == "" {
		return fmt.Errorf("nothing was committed: %s", reportview.NotReady(r))
	}
	return fmt.Errorf("nothing was committed: %s; without --yes it asks for the reason why that is as it should be", unmet)
}

// reviewDoubts shows the doubts about an experiment, asks for the reason, and accepts them with it.
//
// Acceptances are of versions, by their etags. If one has changed since the report, none is made.
func (c *Client) reviewDoubts(ctx context.Context, experiment string, r *adminpb.Report, d report.Doubts) error {
	asked, err := c.proposed(ctx, experiment, r, d)
	if err != nil {
		return err
	}
	c.listDoubts(d, asked)
	err = c.acceptDoubts(ctx, experiment, asked)
	if status.Code(err) == codes.Aborted {
		return c.changedSince(ctx, r, experiment, err)
	}
	return err
}

// ofLocation returns a report with the requirements of its location alone.
func ofLocation(r *adminpb.Report) *adminpb.Report {
	out := &adminpb.Report{}
	for _, q := range r.GetRequirements() {
		if q.GetSource() == adminpb.Report_RequirementResult_LOCATION {
			out.Requirements = append(out.Requirements, q)
		}
	}
	return out
}

// proposed returns the acceptances that doubts take, with the limits that the server gives them now and
// without a reason. Its error is that of who may not accept them.
//
// It validates each, so that who may not accept finds out before writing a reason, and so that the
// limits which are shown are those that will be stored.
func (c *Client) proposed(ctx context.Context, experiment string, r *adminpb.Report, d report.Doubts) ([]*adminpb.Acceptance, error) {
	var asked []*adminpb.Acceptance
	for _, group := range d.Groups {
		asked = append(asked, ofGroup(group.GroupId))
	}
	for _, item := range d.Items {
		asked = append(asked, ofItem(item.ItemId))
	}
	for _, a := range asked {
		// A validation needs a reason as well; this one stands for the one that is to come.
		a.Reason, a.ExperimentEtag, a.PolicyEtag = report.NotSaidYet, r.ExperimentEtag, r.PolicyEtag
		would, err := c.policies.CreateAcceptance(ctx, &adminpb.CreateAcceptanceRequest{
			Parent: experiment, Acceptance: proto.CloneOf(a), ValidateOnly: true,
		})
		if err != nil {
			return nil, &refusal{err, "nothing was committed: " + Describe(err)}
		}
		a.MaxRequestCount, a.MaxCallerCount, a.CallerCount = would.MaxRequestCount, would.MaxCallerCount, would.CallerCount
	}
	return asked, nil
}

// listDoubts writes what somebody accepts who commits: each group and each unseen line of the report, whatever
// the acceptances are made of, of which the first are of groups.
//
// All of it is shown, however long: it is what somebody puts their name to.
func (c *Client) listDoubts(d report.Doubts, asked []*adminpb.Acceptance) {
	why := "The report does not show what a careful commit requires."
	if len(d.Missing) > 0 {
		why = "No requirement is about " + strings.Join(d.Missing, " or ") + "."
	}
	fmt.Fprintf(c.Err, "\n%s Who commits accepts:\n", why)
	for i, group := range d.Groups {
		fmt.Fprintf(c.Err, "  %s %s: %s, for %s\n", verdict.NameOf(group.Kind), terminal.Line(group.Method+" "+group.Path),
			verdict.Counted(group.RequestCount, "request"), verdict.LimitsOf(asked[i]))
	}
	for _, item := range d.Unseen {
		fmt.Fprintf(c.Err, "  not seen: %s\n", verdict.Item(item).Write(terminal.Line, quoted))
	}
	if d.More > 0 {
		fmt.Fprintf(c.Err, "  %s\n", verdict.NotListed(d.More))
	}
	for _, q := range d.Rest {
		fmt.Fprintf(c.Err, "  %s\n", reportview.Unmet(&adminpb.Report{Requirements: []*adminpb.Report_RequirementResult{q}}))
	}
}

// acceptDoubts asks for a reason, and makes acceptances with it; or asks whether it is to be committed,
// if there are none to be made.
//
// They are made one by one. If one fails, those before it stay: each is true by itself, and the error
// says how many there are.
func (c *Client) acceptDoubts(ctx context.Context, experiment string, asked []*adminpb.Acceptance) error {
	// Such as too few requests: that is no group and no item, so nothing can be accepted of it.
	if len(asked) == 0 {
		if c.ask("\nCommit it all the same?") {
			return nil
		}
		return errNothingCommitted
	}
	reason, err := c.askReason(ctx, experiment, asked[0])
	if err != nil {
		return err
	}
	for i, a := range asked {
		a.Reason = reason
		_, err := c.policies.CreateAcceptance(ctx, &adminpb.CreateAcceptanceRequest{Parent: experiment, Acceptance: a})
		if err != nil {
			return &refusal{err, fmt.Sprintf("nothing was committed, and %d of %d accepted: %s", i, len(asked), Describe(err))}
		}
	}
	return nil
}

// askReason asks on the terminal why something is as it should be, until the server takes the reason for the
// first acceptance, which knows what is none. The error says that somebody does not say, or what else is wrong.
func (c *Client) askReason(ctx context.Context, experiment string, first *adminpb.Acceptance) (string, error) {
	// One reader for all attempts: a new one would lose what the first had buffered.
	in := bufio.NewReader(c.In)
	for {
		fmt.Fprint(c.Err, "\nWhy is that as it should be? It will be committed with this reason; without one it will not. [reason] ")
		line, err := in.ReadString('\n')
		reason := strings.TrimSpace(line)
		// People answer no to what asks them; it is none of their reasons.
		if answer := strings.ToLower(reason); err != nil || answer == "" || answer == "n" || answer == "no" {
			return "", errNothingCommitted
		}
		with := proto.CloneOf(first)
		with.Reason = reason
		_, err = c.policies.CreateAcceptance(ctx, &adminpb.CreateAcceptanceRequest{Parent: experiment, Acceptance: with, ValidateOnly: true})
		switch {
		case err == nil:
			return reason, nil
		case !blamesReason(err):
			return "", &refusal{err, "nothing was committed: " + Describe(err)}
		}
		fmt.Fprintln(c.Err, Describe(err))
	}
}

// blamesReason reports whether it is the reason of an acceptance that the server does not take.
//
// The server refuses reasons that say nothing, such as "yes". Then it is asked for again.
func blamesReason(err error) bool {
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			return slices.ContainsFunc(bad.FieldViolations, func(v *errdetails.BadRequest_FieldViolation) bool { return v.Field == "acceptance.reason" })
		}
	}
	return false
}

package ui

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"understudy/admin/apierror"
	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
)

// confirmed is what the page that asks for a commit shows: an experiment, and what somebody accepts who
// commits it all the same.
type confirmed struct {
	*trial
	// Careful is what a careful commit requires, and Require what it still requires once all Doubts are
	// accepted.
	Careful, Require string
	Doubts           []doubt
}

// doubt is one thing that the report does not show.
type doubt struct {
	// Text, Code and Rest say what it is. Item is the item that it is about, with what was seen of it.
	Text, Code, Rest string
	Item             verdict.Phrase
	// Value names the acceptance that it takes, with its limits; empty if it is only confirmed.
	Value string
}

// Asks says that acceptances are made, so that there has to be a reason.
func (c confirmed) Asks() bool {
	for _, d := range c.Doubts {
		if d.Value != "" {
			return true
		}
	}
	return false
}

// confirmedBy finds out what somebody accepts who commits, with the limits that the server gives it now.
func (u *UI) confirmedBy(ctx context.Context, t *trial) (confirmed, error) {
	d := report.DoubtsOf(t.Report, nil)
	out := confirmed{trial: t, Careful: report.DefaultRequirements, Require: report.Format(d.Required)}
	if t.Blocked() {
		return out, nil
	}
	for _, g := range d.Groups {
		would, err := u.config.Services.CreateAcceptance(ctx, &adminpb.CreateAcceptanceRequest{
			Parent: t.Experiment.Name, ValidateOnly: true, Acceptance: &adminpb.Acceptance{
				Target: &adminpb.Acceptance_GroupId{GroupId: g.GroupId}, Reason: report.NotSaidYet, ExperimentEtag: t.Experiment.Etag, PolicyEtag: t.Policy.Etag,
			},
		})
		if err != nil {
			return out, err
		}
		out.Doubts = append(out.Doubts, doubt{
			Text: verdict.Counted(g.RequestCount, "request") + " " + verdict.NameOf(g.Kind), Code: g.Method + " " + g.Path,
			Rest: "accepted are " + verdict.LimitsOf(would), Value: fmt.Sprintf("group:%s:%d:%d", g.GroupId, would.MaxRequestCount, would.MaxCallerCount),
		})
	}
	out.Doubts = append(out.Doubts, unseenBy(d)...)
	for _, q := range d.Rest {
		out.Doubts = append(out.Doubts, doubt{Text: "Only confirmed:", Code: q.Requirement, Rest: "there is " + q.Have + ", needed is " + q.Need})
	}
	return out, nil
}

// unseenBy are the unseen lines of a report, whatever the acceptances are made of.
func unseenBy(d report.Doubts) (out []doubt) {
	values := make(map[*adminpb.Report_Item]string)
	for _, item := range d.Items {
		values[item] = "item:" + item.ItemId
	}
	for _, item := range d.Unseen {
		out = append(out, doubt{Text: "Not seen:", Item: verdict.Item(item), Value: values[item]})
		delete(values, item)
	}
	if d.More > 0 {
		out = append(out, doubt{Text: upperFirst(verdict.NotListed(d.More))})
	}
	for item, value := range values { // what stands for all of them, if anything does
		out = append(out, doubt{Text: "Accepted at once:", Item: verdict.What(item), Value: value})
	}
	return out
}

// requiredBy are the requirements that a form names; those of a careful commit if it names none.
func requiredBy(r *http.Request) (*adminpb.CommitRequirements, error) {
	list, given := r.PostForm["require"]
	if !given {
		return report.Default(), nil
	}
	required, err := report.Parse(strings.Join(list, ","))
	if err != nil {
		return nil, apierror.Invalid(apierror.ReasonInvalidParameter, "require", err.Error())
	}
	return required, nil
}

// acceptDoubts makes the acceptances that a form names, all with its reason.
func (u *UI) acceptDoubts(r *http.Request, name, etag, parent string) error {
	for _, value := range r.PostForm["accept"] {
		a, err := parseDoubt(value)
		if err != nil {
			return err
		}
		a.Reason, a.ExperimentEtag, a.PolicyEtag = r.PostFormValue("reason"), etag, parent
		if _, err := u.config.Services.CreateAcceptance(r.Context(), &adminpb.CreateAcceptanceRequest{Parent: name, Acceptance: a}); err != nil {
			return err
		}
	}
	return nil
}

// parseDoubt reads the Value of a doubt.
func parseDoubt(value string) (*adminpb.Acceptance, error) {
	parts := strings.Split(value, ":")
	if len(parts) == 2 && parts[0] == "item" {
		return &adminpb.Acceptance{Target: &adminpb.Acceptance_ItemId{ItemId: parts[1]}}, nil
	}
	if len(parts) == 4 && parts[0] == "group" {
		requests, requestsErr := strconv.ParseInt(parts[2], 10, 64)
		callers, callersErr := strconv.ParseInt(parts[3], 10, 64)
		if requestsErr == nil && callersErr == nil {
			return &adminpb.Acceptance{
				Target: &adminpb.Acceptance_GroupId{GroupId: parts[1]}, MaxRequestCount: requests, MaxCallerCount: callers,
			}, nil
		}
	}
	return nil, apierror.Invalid(apierror.ReasonInvalidParameter, "accept", "Load the page that asks for the commit again.")
}

package ui

import (
	"net/http"
	"net/url"
	"strconv"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// asked is what the page that asks for an acceptance shows.
type asked struct {
	*trial
	group
}

// offerAccepting offers what whoever may commit can do about the groups of a report: accept
// one, or take that back.
func (t *trial) offerAccepting(groups groupTable) groupTable {
	if !t.May.Commit {
		return groups
	}
	for i := range groups.Rows {
		g := &groups.Rows[i]
		if g.GroupId != "" && g.Acceptance.GetState() != adminpb.Acceptance_IN_FORCE {
			g.Accept = address(t.Experiment.Name, "accept") + "?" + url.Values{"group": {g.GroupId}}.Encode()
		}
		if g.Acceptance != nil {
			g.TakeBack = address(t.Experiment.Name, "takeBack")
		}
	}
	return groups
}

// confirmAcceptance asks why a group is as it should be. The form is on a page of its own, which
// does not change while somebody writes.
func (u *UI) confirmAcceptance(r *http.Request) (*view, error) {
	name := experimentNamed(r)
	t, err := u.readTrial(r.Context(), name)
	if err != nil {
		return nil, err
	}
	if !t.May.Commit {
		return nil, apierror.PermissionDenied(string(access.ExperimentsCommit), name)
	}
	d := report.GroupOf(t.Report, r.URL.Query().Get("group"))
	if d == nil {
		return nil, apierror.Invalid(apierror.ReasonInvalidParameter, "group", "The report has no such group any more. Load the page of the experiment again.")
	}
	data := asked{trial: t, group: newGroup(t.Report, d)}
	return &view{
		Title: "Accept a difference of " + id(name) + "?", Kicker: "Nothing is done yet", Asks: true,
		Crumbs: append(crumbs(name), link{id(name), address(name)}), Location: locationOf(name), Tab: "policies",
		Parts: []part{{ID: "accept", Page: "accept", Data: data}},
	}, nil
}

// accept accepts a group of the two versions that the form names.
func (u *UI) accept(r *http.Request) (*url.URL, *view, error) {
	name := experimentNamed(r)
	limits := make(map[string]int64)
	for _, field := range []string{"max_requests", "max_callers"} {
		text := r.PostFormValue(field)
		if text == "" {
			continue // the server knows the default
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return nil, nil, apierror.Invalid(apierror.ReasonInvalidParameter, field, "It is a whole number of at least 1, such as 100.")
		}
		limits[field] = n
	}
	_, err := u.config.Services.CreateAcceptance(r.Context(), &adminpb.CreateAcceptanceRequest{Parent: name, Acceptance: &adminpb.Acceptance{
		Target: &adminpb.Acceptance_GroupId{GroupId: r.PostFormValue("group")}, Reason: r.PostFormValue("reason"),
		ExperimentEtag: r.PostFormValue("etag"), PolicyEtag: r.PostFormValue("parent_etag"),
		MaxRequestCount: limits["max_requests"], MaxCallerCount: limits["max_callers"],
	}})
	return groupsAt(name), nil, err //nolint:wrapcheck // it is for the caller
}

// takeBack deletes an acceptance of an experiment, if it is still the one that was seen.
func (u *UI) takeBack(r *http.Request) (*url.URL, *view, error) {
	name := experimentNamed(r)
	_, err := u.config.Services.DeleteAcceptance(r.Context(), &adminpb.DeleteAcceptanceRequest{
		Name: name + "/acceptances/" + r.PostFormValue("acceptance"), Etag: r.PostFormValue("etag"),
	})
	return groupsAt(name), nil, err //nolint:wrapcheck // it is for the caller
}

// groupsAt is where the groups of an experiment are.
func groupsAt(experiment string) *url.URL {
	to := at(experiment)
	to.Fragment = "groups"
	return to
}

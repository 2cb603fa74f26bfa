package ui

import (
	"net/http"
	"net/url"
	"strconv"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
)

// decided is what somebody has decided about a group or an item.
type decided struct {
	// Current is its acceptance, and Accepted says who accepted it and why; empty if nobody has.
	Current  *adminpb.Acceptance
	Accepted string
	// Accept is the address of the page that asks for an acceptance, and TakeBack that of the
	// form that takes it back; empty if that is not offered.
	Accept, TakeBack string
}

// decidedOf is that of a difference or an item of a report.
func decidedOf(r *adminpb.Report, of interface{ GetAcceptance() string }) decided {
	accepted := report.AcceptanceOf(r, of)
	return decided{Current: accepted, Accepted: verdict.Accepted(accepted)}
}

// offer offers what anyone who may commit can do: accept what has an ID, by the parameter of this name,
// or take that back.
func (t *trial) offer(d *decided, parameter, id string) {
	if !t.May.Commit {
		return
	}
	if id != "" && d.Current.GetState() != adminpb.Acceptance_IN_FORCE {
		d.Accept = address(t.Experiment.Name, "accept") + "?" + url.Values{parameter: {id}}.Encode()
	}
	if d.Current != nil {
		d.TakeBack = address(t.Experiment.Name, "takeBack")
	}
}

// offerAccepting offers to accept the groups of a report.
func (t *trial) offerAccepting(groups groupTable) groupTable {
	for i := range groups.Rows {
		t.offer(&groups.Rows[i].decided, "group", groups.Rows[i].GroupId)
	}
	return groups
}

// offerAcceptingItems offers to accept the items of a report that no request has shown.
func (t *trial) offerAcceptingItems(items itemTables) itemTables {
	for _, rows := range [][]item{items.Code, items.Data} {
		for i := range rows {
			id := rows[i].ItemId
			if report.SeenWhole(rows[i].Report_Item) {
				id = ""
			}
			t.offer(&rows[i].decided, "item", id)
		}
	}
	return items
}

// asked is what the page that asks for an acceptance shows: of a group, or of an item.
type asked struct {
	*trial
	Group *group
	Item  *item
}

// askedOf is what a request asks to accept.
func (t *trial) askedOf(q url.Values) (asked, error) {
	if d := report.GroupOf(t.Report, q.Get("group")); d != nil {
		g := newGroup(t.Report, d)
		return asked{trial: t, Group: &g}, nil
	}
	for _, one := range t.Report.Items {
		if one.ItemId != "" && one.ItemId == q.Get("item") {
			i := newItem(t.Report, one)
			return asked{trial: t, Item: &i}, nil
		}
	}
	return asked{}, apierror.Invalid(apierror.ReasonInvalidParameter, "group", "The report has no such group or item any more. Load the page of the experiment again.")
}

// confirmAcceptance asks why a group or an item is as it should be. The form is on a page of its own, which
// does not change while somebody writes.
func (u *UI) confirmAcceptance(r *http.Request) (*view, error) {
	name := experimentNamed(r)
	t, err := u.readTrial(r.Context(), name)
	if err != nil {
		return nil, err
	}
	if !t.May.Commit {
		return nil, apierror.PermissionDenied(apierror.Permission(access.ExperimentsCommit), name)
	}
	data, err := t.askedOf(r.URL.Query())
	if err != nil {
		return nil, err
	}
	what := "a difference"
	if data.Item != nil {
		what = "an unseen item"
	}
	return &view{
		Title: "Accept " + what + " of " + id(name) + "?", Kicker: "Nothing is done yet", Asks: true,
		Crumbs: append(crumbs(name), link{id(name), address(name)}), Location: locationOf(name), Tab: "policies",
		Parts: []part{{ID: "accept", Page: "accept", Data: data}},
	}, nil
}

// accept accepts a group or an item of the two versions that the form names.
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
			return nil, nil, apierror.Invalid(apierror.ReasonInvalidParameter, apierror.Field(field), "It is a whole number of at least 1, such as 100.")
		}
		limits[field] = n
	}
	a := &adminpb.Acceptance{
		Target: &adminpb.Acceptance_GroupId{GroupId: r.PostFormValue("group")}, Reason: r.PostFormValue("reason"),
		ExperimentEtag: r.PostFormValue("etag"), PolicyEtag: r.PostFormValue("parent_etag"),
		MaxRequestCount: limits["max_requests"], MaxCallerCount: limits["max_callers"],
	}
	to := groupsAt(name)
	if id := r.PostFormValue("item"); id != "" {
		a.Target, to = &adminpb.Acceptance_ItemId{ItemId: id}, itemsAt(name)
	}
	_, err := u.config.Services.CreateAcceptance(r.Context(), &adminpb.CreateAcceptanceRequest{Parent: name, Acceptance: a})
	return to, nil, err
}

// takeBack deletes an acceptance of an experiment, if it is still the one that was seen.
func (u *UI) takeBack(r *http.Request) (*url.URL, *view, error) {
	name := experimentNamed(r)
	_, err := u.config.Services.DeleteAcceptance(r.Context(), &adminpb.DeleteAcceptanceRequest{
		Name: name + "/acceptances/" + r.PostFormValue("acceptance"), Etag: r.PostFormValue("etag"),
	})
	return groupsAt(name), nil, err
}

// itemsAt is where the items of an experiment are.
func itemsAt(experiment string) *url.URL {
	to := at(experiment)
	to.Fragment = "h-items"
	return to
}

// groupsAt is where the groups of an experiment are.
func groupsAt(experiment string) *url.URL {
	to := at(experiment)
	to.Fragment = "groups"
	return to
}

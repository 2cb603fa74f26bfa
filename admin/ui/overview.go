package ui

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"understudy/admin/access"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// The view of a location begins with what needs a decision: its experiments, those first of
// which somebody has to judge what they have shown. All lists that it is made of have no
// contents.

const (
	// policiesShown and experimentsShown are how many rows a page of each table has.
	policiesShown    = 50
	experimentsShown = 50
	// reportsShown is of how many experiments the reports are read: each is a sum over all
	// sidecars. Those that are previewed come first.
	reportsShown = 60
)

// location is the view of the policies of a location. The parameter q narrows both tables,
// from is the number of experiments before those that are shown, and page the token of the
// policies.
func (u *UI) location(r *http.Request) (*view, error) {
	name, asked := locationNamed(r), r.URL.Query()
	q := strings.TrimSpace(asked.Get("q"))
	trials, err := u.trials(r.Context(), name, q, asked)
	if err != nil {
		return nil, err
	}
	sidecars, err := u.sidecars(r.Context(), name)
	if err != nil {
		return nil, err
	}
	policies, err := u.policyTable(r.Context(), name, q, asked, sidecars)
	if err != nil {
		return nil, err
	}
	others, err := u.locations(r.Context(), name)
	if err != nil {
		return nil, err
	}
	return &view{
		Title: id(name), Kicker: "Policies of the location", Location: name, Tab: "policies",
		Parts: []part{
			{ID: "locations", Page: "locations", Data: others},
			{ID: "find", Page: "find", Data: search{Text: q, Location: name}},
			{ID: "trials", Page: "trials", Data: trials},
			{ID: "policies", Page: "policies", Data: policies},
			{ID: "sidecars", Page: "sidecars", Data: sidecars},
		},
	}, nil
}

// search is what is looked for.
type search struct{ Text, Location string }

// trialTable are the experiments of a location.
type trialTable struct {
	Rows []experimentRow
	// All is how many there are, or are found, and Text what was looked for.
	All  int64
	Text string
	// Before and Next are the addresses of the pages around this one; empty without one.
	Before, Next string
	// Denied says that they may not be seen.
	Denied bool
}

// trials reads the experiments of a location in the order in which they need a decision.
func (u *UI) trials(ctx context.Context, location, q string, asked url.Values) (trialTable, error) {
	all, err := u.allExperiments(ctx, location)
	if denied(err) {
		return trialTable{Denied: true}, nil
	}
	if err != nil {
		return trialTable{}, err
	}
	all = slices.DeleteFunc(all, func(e *adminpb.PolicyExperiment) bool { return !found(q, e.Name, e.DisplayName) })
	rows := u.judged(ctx, all)
	slices.SortStableFunc(rows, func(a, b experimentRow) int {
		return cmp.Or(cmp.Compare(a.need(), b.need()), strings.Compare(a.Name, b.Name))
	})
	t := trialTable{All: int64(len(rows)), Text: q}
	from, _ := strconv.Atoi(asked.Get("from"))
	from = max(0, min(from, len(rows)))
	to := min(from+experimentsShown, len(rows))
	t.Rows = rows[from:to]
	if from > 0 {
		t.Before = with(asked, "from", strconv.Itoa(max(0, from-experimentsShown)))
	}
	if to < len(rows) {
		t.Next = with(asked, "from", strconv.Itoa(to))
	}
	return t, nil
}

// with is a query in which a parameter has another value.
func with(asked url.Values, name, value string) string {
	changed := url.Values{}
	for key, values := range asked {
		changed[key] = values
	}
	changed.Set(name, value)
	return "?" + changed.Encode()
}

// found reports whether a text is looked for that a resource has in its own ID, in that of its
// policy, or in its name for display.
func found(text, name, display string) bool {
	text = strings.ToLower(text)
	return strings.Contains(authz.ResourceName(name).Short(), text) || strings.Contains(strings.ToLower(display), text)
}

// allExperiments reads those of all policies of a location.
func (u *UI) allExperiments(ctx context.Context, location string) (all []*adminpb.PolicyExperiment, err error) {
	for token := ""; ; {
		list, err := u.config.Services.ListPolicyExperiments(ctx, &adminpb.ListPolicyExperimentsRequest{
			Parent: location + "/policies/-", PageSize: 1000, PageToken: token,
		})
		if err != nil {
			return nil, err
		}
		if all, token = append(all, list.PolicyExperiments...), list.NextPageToken; token == "" {
			return all, nil
		}
	}
}

// judged are the rows of experiments, with the reports of those that were started last.
func (u *UI) judged(ctx context.Context, experiments []*adminpb.PolicyExperiment) (rows []experimentRow) {
	slices.SortStableFunc(experiments, func(a, b *adminpb.PolicyExperiment) int {
		x, y := stateOf(a), stateOf(b)
		switch {
		case x.Active == y.Active:
			return y.Since.AsTime().Compare(x.Since.AsTime())
		case x.Active:
			return -1
		}
		return 1
	})
	left := reportsShown
	for _, e := range experiments {
		rows = append(rows, u.experimentRow(ctx, e, &left))
	}
	return rows
}

// need is the place of an experiment among those that need a decision: to judge what differs,
// to commit what is ready or does not differ, to change what a commit is refused of. The others wait
// for traffic, or for somebody to start them.
func (row experimentRow) need() int {
	switch {
	case row.Report == nil && !row.State.Begun:
		return 5
	case row.Report == nil:
		return 4
	case row.Report.RequestCount == 0 && row.Verdict.Tone == "unknown":
		return 3
	}
	return map[string]int{"look": 0, "good": 1, "unknown": 1, "bad": 2}[row.Verdict.Tone]
}

// policyTable is the table of policies.
type policyTable struct {
	Location string
	Rows     []policyRow
	// Text is what was looked for.
	Text string
	// Next is the address of the next page; empty without one.
	Next string
	// Damaged are the names of policies that cannot be read.
	Damaged []string
}

// policyRow is a policy in the table.
type policyRow struct {
	*adminpb.Policy
	// Creator is who made the revision; empty if that is not known.
	Creator string
	// Enforced says on how many sidecars.
	Enforced enforced
}

// policyTable reads a page of the policies of a location.
func (u *UI) policyTable(ctx context.Context, location, q string, asked url.Values, s sidecars) (policyTable, error) {
	request := &adminpb.ListPoliciesRequest{Parent: location, PageSize: policiesShown, PageToken: asked.Get("page")}
	if q != "" {
		request.Filter = phrase(q)
	}
	list, err := u.config.Services.ListPolicies(ctx, request)
	if err != nil {
		return policyTable{}, err
	}
	t := policyTable{Location: location, Text: q, Damaged: list.Unreachable}
	if list.NextPageToken != "" {
		t.Next = with(asked, "page", list.NextPageToken)
	}
	may, err := u.permitted(ctx, location, access.RevisionsList)
	if err != nil {
		return t, err
	}
	for _, p := range list.Policies {
		t.Rows = append(t.Rows, policyRow{Policy: p, Enforced: s.enforcing(p), Creator: u.makerOf(ctx, p, may)})
	}
	return t, nil
}

// phrase is a text as a filter searches it (AIP-160).
func phrase(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// experimentRow is an experiment in a table.
type experimentRow struct {
	*adminpb.PolicyExperiment
	State state
	// Report is what it has shown; nil if that was not read.
	Report *adminpb.Report
	// Verdict is that of the report.
	Verdict verdictView
	// Differing says how many requests differ, with the gravest kind.
	Differing string
}

// experimentRow is that of an experiment, with its report if some are left to be read.
func (u *UI) experimentRow(ctx context.Context, e *adminpb.PolicyExperiment, left *int) experimentRow {
	row := experimentRow{PolicyExperiment: e, State: stateOf(e)}
	if *left == 0 || !row.State.Begun {
		return row
	}
	*left--
	if r, err := u.config.Services.GetReport(ctx, &adminpb.GetReportRequest{Name: e.Name + "/report"}); err == nil {
		row.Report, row.Verdict, row.Differing = r, viewOf(verdict.Of(r)), verdict.Differing(r)
	}
	return row
}

// PolicyID is that of the policy that it is an experiment with.
func (row experimentRow) PolicyID() string { return id(policyOf(row.Name)) }

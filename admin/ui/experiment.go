package ui

import (
	"context"
	"net/http"

	"understudy/admin/access"
	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
)

// trial is an experiment with all that a page shows of it.
type trial struct {
	Experiment *adminpb.PolicyExperiment
	Policy     *adminpb.Policy
	Report     *adminpb.Report
	State      state
	Verdict    verdictView
	May        offers
}

// offers are the actions that a page offers: those that make sense now, and that one may do.
type offers struct{ Start, Stop, Commit bool }

// readTrial reads an experiment, its policy and its report.
func (u *UI) readTrial(ctx context.Context, name string) (*trial, error) {
	t := &trial{}
	var err error
	if t.Experiment, err = u.config.Services.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: name}); err != nil {
		return nil, err
	}
	if t.Policy, err = u.config.Services.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: policyOf(name)}); err != nil {
		return nil, err
	}
	if t.Report, err = u.config.Services.GetReport(ctx, &adminpb.GetReportRequest{Name: name + "/report"}); err != nil {
		return nil, err
	}
	may, err := u.permitted(ctx, name, access.ExperimentsStart, access.ExperimentsStop, access.ExperimentsCommit)
	if err != nil {
		return nil, err
	}
	t.State, t.Verdict = stateOf(t.Experiment), viewOf(verdict.Of(t.Report))
	t.May = offers{
		Start: may[access.ExperimentsStart] && !t.State.Active, Stop: may[access.ExperimentsStop] && t.State.Active,
		Commit: may[access.ExperimentsCommit],
	}
	return t, nil
}

// experiment is the view of an experiment: should I commit it?
func (u *UI) experiment(r *http.Request) (*view, error) {
	name := experimentNamed(r)
	t, err := u.readTrial(r.Context(), name)
	if err != nil {
		return nil, err
	}
	text := comparedText(t.Policy, t.Experiment.Policy, t.Report)
	return &view{
		Title: titled(t.Experiment.DisplayName, name), Kicker: "Experiment with " + id(policyOf(name)),
		Crumbs: crumbs(name), Location: locationOf(name), Tab: "policies",
		Parts: []part{
			{ID: "verdict", Page: "verdict", Data: t},
			{ID: "undoes", Page: "undoes", Data: verdict.TakenBack(t.Report)},
			{ID: "expects", Page: "expects", Data: verdict.Expectations(t.Report)},
			{ID: "items", Page: "items", Data: t.offerAcceptingItems(itemsOf(t.Report))},
			{ID: "requirements", Page: "requirements", Data: requirementsOf(t.Report)},
			{ID: "numbers", Page: "numbers", Data: numbersOf(t.Report)},
			{ID: "time", Page: "time", Data: plotsOf(t.Report)},
			{ID: "groups", Page: "groups", Data: t.offerAccepting(groupsOf(t.Report, r.URL.Query()))},
			{ID: "text", Page: "text", Data: text, Version: text.version},
			{ID: "known", Page: "known", Data: knownOf(t.Report)},
			{ID: "about", Page: "about", Data: t},
		},
	}, nil
}

// requirement is what a commit requires, with its state in words.
type requirement struct {
	*adminpb.Report_RequirementResult
	State string
}

// requirementsOf are those of a report, what is not met first.
func requirementsOf(r *adminpb.Report) (rows []requirement) {
	for _, q := range verdict.Requirements(r) {
		rows = append(rows, requirement{q, verdict.StateOfRequirement(r, q)})
	}
	return rows
}

// titled is a display name, or the ID of what has none.
func titled(display, name string) string {
	if display != "" {
		return display
	}
	return id(name)
}

// Scope says where, for how long and as of when the report is.
func (t *trial) Scope() (parts []string) {
	r := t.Report
	if r.NodeCount > 0 {
		parts = append(parts, "on "+report.Number(int64(r.ReportingNodeCount))+" of "+verdict.Counted(int64(r.NodeCount), "sidecar"))
	}
	if r.ActiveDuration.AsDuration() > 0 {
		parts = append(parts, "for "+verdict.Period(r.ActiveDuration))
	}
	if r.UpdateTime != nil {
		parts = append(parts, "as of "+r.UpdateTime.AsTime().UTC().Format("15:04:05 UTC"))
	}
	return parts
}

// Short is the experiment as commands take it: POLICY/EXPERIMENT.
func (t *trial) Short() string { return id(policyOf(t.Experiment.Name)) + "/" + id(t.Experiment.Name) }

// Blocked says that the server would refuse a commit now: requirements are not met.
func (t *trial) Blocked() bool { return !t.Report.RequirementsMet }

// numbers are those of a report, with what they are a part of.
type numbers struct {
	Compared int64
	Cells    []cell
	// Split says what shares of newly denied and newly allowed requests are of.
	Split string
	// Left is how many requests were not compared, with their share of all and why.
	Left           int64
	LeftShare, Why string
}

// cell is one number.
type cell struct {
	Name, Class string
	Number      int64
	// Share is what part that is, and Of of what.
	Share, Of string
	// Width is the part of the bar, in thousandths.
	Width, From float64
}

// classes :: kind → the class of its colour.
var classes = map[adminpb.Report_Kind]string{
	adminpb.Report_NEWLY_DENIED: "denied", adminpb.Report_NEWLY_ALLOWED: "allowed", adminpb.Report_FAILED: "failed",
	adminpb.Report_RESPONSE_CHANGED: "changed", adminpb.Report_LIVE_FAILED: "livefailed",
}

// numbersOf are those of a report.
func numbersOf(r *adminpb.Report) numbers {
	left, all := report.NotCompared(report.Counts(r))
	out := numbers{
		Compared: r.RequestCount, Split: verdict.Split(r), Left: left, LeftShare: verdict.Share(left, all), Why: verdict.WhyDropped(r),
	}
	add := func(name, class, share, of string, n int64) {
		out.Cells = append(out.Cells, cell{Name: name, Class: class, Number: n, Share: share, Of: of})
	}
	add("unchanged", "unchanged", verdict.Unchanged(r), "", r.UnchangedCount)
	for _, k := range verdict.Changes {
		add(k.Name, classes[k.Value], verdict.ShareOf(r, k), verdict.ShareInWords(r, k), k.Count(r))
	}
	if left > 0 {
		add("not compared", "dropped", out.LeftShare, out.LeftShare+" of "+verdict.Counted(all, "request"), left)
	}
	return out
}

// known is what a report says of who is concerned and of what is not known.
type known struct {
	Labels   []*adminpb.Report_LabelSummary
	Noise    string
	Bounds   []string
	NotKnown []string
	AllPairs string
}

// knownOf is that of a report.
func knownOf(r *adminpb.Report) known {
	k := known{
		Labels: verdict.Labels(r), Noise: verdict.Noise(r), Bounds: verdict.Bounds(r), NotKnown: verdict.NotKnown(r),
	}
	if all := r.AllPairs; all.GetRequestCount() > r.RequestCount {
		k.AllPairs = verdict.Summary(report.WithCounts(all))
	}
	return k
}

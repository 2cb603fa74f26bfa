package reportview

import (
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
)

// form is a report for people that is being written. Each section has what it is about, and is
// asked for only if there is something to say.
type form interface {
	verdict(v verdict.Verdict)
	// scope says between what, for how long, where and as of when.
	scope()
	// takenBack is what the live policy has changed since, and a commit would undo.
	takenBack(texts []string)
	// expectations are what the author of the experiment expects, with what was seen of it.
	expectations(texts []string)
	// items is what requests have shown of the change, and what none has.
	items()
	// counts is how many requests of each kind there are.
	counts()
	// requirements is what a commit needs.
	requirements(rows []*adminpb.Report_RequirementResult)
	// groups is what differs, and why.
	groups(all []*adminpb.Report_Difference)
	// who is who sends the requests of each kind.
	who(labels []*adminpb.Report_LabelSummary)
	// noise is how far the live policy differs from itself.
	noise(text string)
	// bounds is what the numbers exclude.
	bounds(texts []string)
	// unknown is what the report has no evidence of.
	unknown(texts []string)
	// notes is where the report comes from.
	notes(of string, texts []string)
}

// writeSections writes the sections of a report in their order.
func writeSections(f form, r *adminpb.Report, o Options) {
	f.verdict(verdict.Of(r))
	f.scope()
	if texts := verdict.TakenBack(r); len(texts) > 0 {
		f.takenBack(texts)
	}
	if texts := verdict.Expectations(r); len(texts) > 0 {
		f.expectations(texts)
	}
	if r.RequestCount > 0 {
		f.items()
		f.counts()
	}
	if rows := verdict.Requirements(r); len(rows) > 0 {
		f.requirements(rows)
	}
	if all := verdict.Groups(r); len(all) > 0 || len(r.OtherDifferences) > 0 {
		f.groups(all)
	}
	f.who(verdict.Labels(r))
	if text := verdict.Noise(r); text != "" {
		f.noise(text)
	}
	f.bounds(verdict.Bounds(r))
	f.unknown(verdict.NotKnown(r))
	f.notes(o.NotesOf, o.Notes)
}

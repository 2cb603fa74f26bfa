package reportview

import (
	"strings"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/terminal"
)

// Progress is what somebody sees who waits for requirements: the verdict, and what each of
// them has.
//
// It is written again in place each time that something changes, so it has few lines.
func Progress(r *adminpb.Report, o Options) []string {
	p := &page{r: r, o: o, d: details[0]}
	p.verdict(verdict.Of(r))
	p.d.gaps = false
	p.requirements(verdict.Requirements(r))
	return p.lines
}

// NotReady says on one line why a report is not ready that meets its requirements: which are missing, and how they are
// written, or that items are unjudged.
//
// An error says what to write, not only what is missing.
func NotReady(r *adminpb.Report) string {
	names := report.Missing(r)
	if len(names) == 0 {
		return verdict.Missing(r) + ": send requests that show them, or accept them with `understudy accept`"
	}
	if report.IsAboutItems(names[0]) {
		return verdict.Missing(r) + ", and " + verdict.Unseen(r) + ": require " + names[0] + "=0, and accept what no request can show"
	}
	return verdict.Missing(r) + ": say how many there may be, such as " + names[0] + "=0 or " + names[0] + "<=1%"
}

// Unmet names the requirements that are not met, each with what there is and what is
// needed, on one line.
func Unmet(r *adminpb.Report) string {
	var parts []string
	for _, q := range r.Requirements {
		if !q.Met {
			parts = append(parts, terminal.Line(q.Requirement)+" has "+haveNeed(r, q))
		}
	}
	return strings.Join(parts, "; ")
}

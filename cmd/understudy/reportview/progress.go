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
func Progress(r *adminpb.Report, o Options) []string {
	p := &page{r: r, o: o, d: details[0]}
	p.verdict()
	p.d.gaps = false
	p.requirements()
	return p.lines
}

// Unjudged says on one line which requirements are missing, and how they are written; it is
// empty if none is ([report.Unjudged]).
func Unjudged(r *adminpb.Report) string {
	names := report.Unjudged(r)
	if len(names) == 0 {
		return ""
	}
	return verdict.Unjudged(r) + ": say how many there may be, such as " + names[0] + "=0 or " + names[0] + "<=1%"
}

// Unmet names the requirements that are not met, each with what there is and what is
// needed, on one line.
func Unmet(r *adminpb.Report) string {
	var parts []string
	for _, q := range r.Requirements {
		if !q.Met {
			parts = append(parts, terminal.Line(q.Requirement)+" has "+haveNeed(q))
		}
	}
	return strings.Join(parts, "; ")
}

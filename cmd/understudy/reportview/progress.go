package reportview

import (
	"strings"

	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/terminal"
)

// Progress is what somebody sees who waits for requirements: the verdict, and what each of
// them has.
func Progress(r *adminpb.Report, o Options) []string {
	p := &page{r: r, o: o, d: details[0]}
	p.verdict()
	p.d.examples = false
	p.requirements()
	return p.lines
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

// Package reportview shows a report of what an experiment changes: on a terminal, as
// JSON, as Markdown for a pull request, and as JUnit's XML for a pipeline.
//
// A report says whether one should commit. So each form begins with the verdict, in
// one sentence. What the change is follows, with what requests have shown of it, then the numbers with what they
// are a part of, what differs and why, who is concerned, and what is not known.
// All forms have the same facts in the same order.
//
// It needs nothing but the report: no server, and no clock. Paths, principals, reasons and
// labels in a report are written by others, some of them by anyone who sends a request; what
// would control a terminal or a page is escaped.
package reportview

import (
	"fmt"
	"io"
	"strings"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/terminal"
)

// Formats are the names of the forms, as --output takes them.
var Formats = []string{"text", "json", "markdown", "junit"}

// Options say how a report is shown. Their zero value shows all columns, without colours.
type Options struct {
	// Name is what the report is of. Empty is the experiment that the report names.
	Name string
	// Width and Height are those of the terminal, in characters; 0 is without a bound. In
	// a lower terminal fewer groups and details are shown, and lists say how much more
	// there is.
	Width, Height int
	// Palette colours the text of a terminal.
	Palette terminal.Palette
	// Everything shows lists to their ends, whatever the height.
	Everything bool
	// Sides say where the two policies come from, if that is not a server that has both. JSON has
	// none.
	Sides []Side
	// Notes are sentences on where the report comes from, which stand at its end, under
	// NotesOf. JSON, which is the report alone, has none.
	Notes   []string
	NotesOf string
}

// Side is one of the two policies of a report.
type Side struct {
	// Name is candidate or live, and From where the policy comes from, with what names its
	// content.
	Name, From string
}

// OptionsFor returns those that fit the terminal that a writer is.
func OptionsFor(w io.Writer) Options {
	width, height := terminal.Size(w)
	return Options{Width: width, Height: height, Palette: terminal.PaletteFor(w)}
}

// Write shows a report in one of the Formats.
func Write(w io.Writer, format string, r *adminpb.Report, o Options) error {
	switch format {
	case "text":
		return Text(w, r, o)
	case "json":
		return JSON(w, r)
	case "markdown":
		return Markdown(w, r, o)
	case "junit":
		return JUnit(w, r, o)
	default:
		return fmt.Errorf("%q is no form of a report: it is %s", format, strings.Join(Formats, ", "))
	}
}

// JSON writes the report as the API has it.
func JSON(w io.Writer, r *adminpb.Report) error { return terminal.WriteJSON(w, r) }

// nameOf is what a report is of: POLICY/EXPERIMENT of its resource name, as the commands
// take it.
func (o Options) nameOf(r *adminpb.Report) string {
	if o.Name != "" {
		return terminal.Line(o.Name)
	}
	if name := authz.ResourceName(r.Name); name.Experiment() != "" {
		return terminal.Line(name.Short())
	}
	return "the experiment"
}

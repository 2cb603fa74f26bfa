package ui

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
)

// groupsOpen is up to how many groups are open from the start.
const groupsOpen = 5

// group is a group of differences as the table shows it.
type group struct {
	*adminpb.Report_Difference
	// Anchor is the ID of what opens.
	Anchor string
	// KindName and Class are its kind.
	KindName, Class string
	// Open says that it is open from the start: there are few.
	Open bool
	// Before and After are what callers get.
	Before, After string
	// UnknownCause says that the causes are not known; empty if they are.
	UnknownCause string
	// Expected is by which expectation it is covered; empty if by none.
	Expected string
	decided
}

// newGroup is a group of a report. Its anchor stays the same while its place changes.
func newGroup(r *adminpb.Report, d *adminpb.Report_Difference) group {
	before, after := verdict.Answers(d)
	return group{
		Report_Difference: d, KindName: verdict.NameOf(d.Kind), Class: classes[d.Kind], Before: before, After: after,
		UnknownCause: verdict.UnknownCause(r, d), Expected: verdict.ExpectedAs(r, d), decided: decidedOf(r, d),
		Anchor: "g" + versionOf(d.Kind.String(), d.Method, d.Path, d.Principal, d.Reason, d.Rule, strings.Join(d.Changes, ","),
			strconv.Itoa(int(d.PolicyStatus)), strconv.Itoa(int(d.ExperimentStatus)), strconv.Itoa(int(d.Expectation)), d.GroupId),
	}
}

// Same says that both sides answer with the same status, and what else differs is in Changes.
func (g group) Same() bool { return g.Before == g.After }

// groupTable is the table of groups, as it was asked for.
type groupTable struct {
	Rows []group
	// Kinds are those that there are, with their groups; Kind the one that is shown alone.
	Kinds []kindChoice
	Kind  string
	// Text is what is looked for.
	Text string
	// Columns can be sorted by; Sort and Down say by which one they are.
	Columns []column
	Sort    string
	// All is how many groups there are, Rest says what is not in them.
	All  int
	Rest []string
}

// kindChoice is a kind that the table can be narrowed to.
type kindChoice struct {
	Value, Name string
	Groups      int
	Chosen      bool
}

// column is a heading that sorts.
type column struct {
	Name, Key, Class string
	// Next is what its button asks for, and Aria what aria-sort says.
	Next, Aria string
}

// orders :: key of a column → how its groups are compared, ascending.
var orders = map[string]func(a, b group) int{
	"requests": func(a, b group) int { return cmp.Compare(a.RequestCount, b.RequestCount) },
	"kind":     func(a, b group) int { return strings.Compare(a.KindName, b.KindName) },
	"path": func(a, b group) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
	},
	"callers": func(a, b group) int { return cmp.Compare(a.CallerCount, b.CallerCount) },
	"last":    func(a, b group) int { return a.LastTime.AsTime().Compare(b.LastTime.AsTime()) },
}

// groupsOf are the groups of a report, sorted and filtered by the parameters sort, kind and q.
// Without an order it is that of the report: the gravest first.
func groupsOf(r *adminpb.Report, q url.Values) groupTable {
	t := groupTable{Kind: q.Get("kind"), Text: q.Get("q"), All: len(r.Differences)}
	counts := make(map[adminpb.Report_Kind]int)
	for _, d := range verdict.Groups(r) {
		counts[d.Kind]++
		if g := newGroup(r, d); (t.Kind == "" || t.Kind == g.Class) && g.has(t.Text) {
			t.Rows = append(t.Rows, g)
		}
	}
	for _, k := range verdict.Kinds {
		if counts[k.Value] > 0 {
			class := classes[k.Value]
			t.Kinds = append(t.Kinds, kindChoice{Value: class, Name: k.Name, Groups: counts[k.Value], Chosen: t.Kind == class})
		}
	}
	for i := range t.Rows {
		t.Rows[i].Open = len(t.Rows) <= groupsOpen
	}
	t.sort(q.Get("sort"))
	for _, o := range r.OtherDifferences {
		t.Rest = append(t.Rest, verdict.Counted(o.RequestCount, "request")+" "+verdict.NameOf(o.Kind))
	}
	return t
}

// sort sorts the rows by a key, or by a key with a minus, descending.
func (t *groupTable) sort(by string) {
	key, down := strings.CutPrefix(by, "-")
	order := orders[key]
	if order != nil {
		t.Sort = by
		slices.SortStableFunc(t.Rows, func(a, b group) int {
			if down {
				return order(b, a)
			}
			return order(a, b)
		})
	}
	for _, c := range []column{
		{Name: "Requests", Key: "requests", Class: "number"}, {Name: "Kind", Key: "kind"}, {Name: "Method and path", Key: "path"},
		{Name: "Callers", Key: "callers", Class: "number"}, {Name: "Last (UTC)", Key: "last"},
	} {
		c.Aria, c.Next = "none", "-"+c.Key // numbers and times: the largest first
		if c.Key == "kind" || c.Key == "path" {
			c.Next = c.Key
		}
		if order != nil && c.Key == key {
			c.Aria, c.Next = "ascending", "-"+c.Key
			if down {
				c.Aria, c.Next = "descending", c.Key
			}
		}
		t.Columns = append(t.Columns, c)
	}
}

// has reports whether a text is in what a group shows.
func (g group) has(text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" {
		return true
	}
	in := []string{g.Method + " " + g.Path, g.Principal, g.Reason, g.Rule}
	for _, c := range g.Causes {
		in = append(in, c.File, c.Text)
	}
	for _, e := range g.Examples {
		in = append(in, e.Path, e.Principal, e.DecisionId)
		for name, value := range e.Labels {
			in = append(in, name, value)
		}
	}
	in = append(in, g.Changes...)
	return slices.ContainsFunc(in, func(s string) bool { return strings.Contains(strings.ToLower(s), text) })
}

package explain

import (
	"fmt"
	"slices"
)

// Trace is what happened to the rules of a policy in one evaluation. It has text of the
// policy and its data, and nothing of the request.
type Trace struct {
	// Roots are the names of the rules that were asked for.
	Roots []string `json:",omitempty"`
	// Rules are those that took part, and the others of their names.
	Rules []Rule `json:",omitempty"`
	// Data are the places of data without whose difference from the live policy the request would be decided otherwise,
	// of the trace of a candidate.
	Data []string `json:",omitempty"`
}

// Rule is one body of a rule, or one of its else branches.
type Rule struct {
	// Name is the rule's reference, such as data.envoy.authz.allow. Several have the same.
	Name string
	File string
	Line int
	// Head is the text before the body.
	Head string
	// Default says that it is the default; Multi that each body adds to a set or an object.
	Default, Multi bool `json:",omitempty"`
	Body           []Part
	// Held says that the body was true at least once, Missed that it was not at least once:
	// a function, or a rule with a variable in its name, can be asked several times.
	Held, Missed bool `json:",omitempty"`
	// Failed is the index in Body of the expression at which it failed, the last of them
	// that was reached; negative if there is none.
	Failed int
}

// plain reports whether a rule has a value and no condition: that it holds explains nothing,
// unless somebody asks whether its value is true.
func (r Rule) plain() bool {
	return !r.Multi && !slices.ContainsFunc(r.Body, func(p Part) bool { return p.Text != r.Head })
}

// Part is one expression of a body as its author wrote it.
type Part struct {
	Line int
	Text string
	// Key is equal for expressions that differ in white space and comments alone.
	Key string
	// Negated says that the expression is true if what it says is not.
	Negated bool `json:",omitempty"`
	// Rules are the names of the rules that it refers to.
	Rules []string `json:",omitempty"`
	// Asked are those of them that it says are true, or are not; not those of which it takes
	// the value, as an argument or to compare it.
	Asked []string `json:",omitempty"`
	// Inner is the expression that failed in the body of an `every`; nil if there is none.
	Inner *Part `json:",omitempty"`
}

// Expression is an expression that decided.
type Expression struct {
	// File is the module, and Line the line in it, from 1.
	File string
	Line int
	// Text is the source, in one line of at most 120 bytes.
	Text string
	// Live says that it is one of the live policy: the candidate does not have it.
	Live bool
}

// Shown returns the text as reports have it, of at most 120 bytes: it says so if the
// expression is one of the live policy.
func (e Expression) Shown() string {
	if e.Live {
		return bounded("(live policy) " + e.Text)
	}
	return e.Text
}

// String returns the expression as reports have it: file:line text.
func (e Expression) String() string { return fmt.Sprintf("%s:%d %s", e.File, e.Line, e.Shown()) }

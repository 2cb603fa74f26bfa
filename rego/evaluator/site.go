package evaluator

import (
	"cmp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// CauseKind is what evaluations do at a site.
type CauseKind string

// The kinds of what is learned of a request, and of what is left to OPA.
const (
	// Whole means: a value is forced, so each value is another request to the policy.
	Whole CauseKind = "whole"
	// Elements means: a value is gone through. A short array is asked for its length, and a small object for its
	// keys. Any other value is forced.
	Elements CauseKind = "elements"
	// Asked means: a question with few answers is asked about a value.
	Asked CauseKind = "asked"
	// ClockAsked means: a question is asked about the clock, for each request at its own time.
	ClockAsked CauseKind = "clock_asked"
	// ClockWhole means: what the clock shows is forced, so that the decision is for its moment alone.
	ClockWhole CauseKind = "clock_whole"
	// Read means: something below the value is looked up. That is forced as it is if a source has sealed it.
	Read CauseKind = "read"
	// Numbers means: a function or a key depends on the value. If that has a number which is not in its usual
	// form, such as 1.0, OPA's interpreter may have to decide the request.
	Numbers CauseKind = "numbers"
	// Left means: OPA's interpreter decides the request if the value is the one that is looked for.
	Left CauseKind = "left"
	// Impure means: a built-in has a value of its own at each call, so OPA's interpreter evaluates the path
	// and no decision is cached.
	Impure CauseKind = "impure"
	// Interpreted means: the rule has a form that this package does not know, so that OPA's
	// interpreter evaluates the path, which takes several times as long, and no decision is cached.
	Interpreted CauseKind = "interpreted"
	// Derived is for sites that look up or call, where something is learned only if not all operands
	// can stay opaque. There are no causes of this kind.
	derived CauseKind = "derived"
	// Composed is for arrays and objects, for which the parts are forced only if not all of them can stay opaque.
	composed CauseKind = "composed"
)

// Cause is a site of the policy at which evaluations learn something of a request, or the reason for which
// they are left to OPA.
type Cause struct {
	// Kind says what is done there.
	Kind CauseKind
	// What is the value, as Rego writes it as far as that is known, or the built-in or the form.
	What string
	// File is the module, and Row the line in it, from 1; empty if unknown.
	File string
	Row  int
}

// unsupported ends the compilation of a rule, which recovers the reason.
func unsupported(at *ast.Location, kind CauseKind, what string) {
	cause := &Cause{Kind: kind, What: what}
	if at != nil {
		cause.File, cause.Row = at.File, at.Row
	}
	panic(cause)
}

// site is where a closure learns something of a request. Nothing is learned without one: that is what the
// methods of a machine take, and scopes alone make them, with a note for explanations.
type site struct {
	opaque.Position
	notes []note
}

// note says of which values something is learned, together.
type note struct {
	kind CauseKind
	// function is what is made of them, if it is derived.
	function *opaque.Function
	of       []origin
	// text is the expression, for values that have no other name.
	text string
	// argument is what the values are passed for: those that are the same in all calls are no cause. Nil for keys.
	argument *argument
	// element is a collection, of which the value is learned only if it is a set; nil if it is learned anyway.
	element origin
}

// nowhere is the site of what is asked about values that are of no request.
var nowhere = &site{}

// site makes the site of what is compiled now, where something may be learned of values, of all together.
func (s scope) site(kind CauseKind, of ...origin) *site {
	return s.noted(note{kind: kind, of: of})
}

// eachSite is site for values of which each is asked about alone.
func (s scope) eachSite(kind CauseKind, of []origin) *site {
	p := s.noted()
	for _, o := range of {
		p.notes = append(p.notes, note{kind: kind, of: []origin{o}, text: s.text()})
	}
	return p
}

// derive makes the site of a look-up or a call of a function, and the origin of its result.
func (s scope) derive(f *opaque.Function, of ...origin) (*site, origin) {
	return s.noted(note{kind: derived, function: f, of: of}), made(f, of)
}

func (s scope) noted(notes ...note) *site {
	p := &site{notes: notes}
	if s.at != nil {
		p.Position = opaque.Position{File: s.at.File, Row: s.at.Row}
	}
	for i := range notes {
		notes[i].text = s.text()
	}
	s.sites = append(s.sites, p)
	return p
}

// maxText is how much of an expression is shown, in bytes.
const maxText = 60

// text is the beginning of the expression that is compiled, as the author wrote it.
func (s scope) text() string {
	if s.at == nil {
		return ""
	}
	line, _, more := strings.Cut(string(s.at.Text), "\n")
	if len(line) > maxText {
		line, more = strings.ToValidUTF8(line[:maxText], ""), true
	}
	if more {
		line += "…"
	}
	return line
}

// Causes returns what evaluations of the path may learn of a request, and where, in the order of the sites.
// Of a value that is asked about a second time nothing more is learned. Not in it is what is forced because
// there is no room for questions: from the 65th of an evaluation on, and in policies with thousands of
// different ones.
func (q *Query) Causes() []Cause {
	c := causes{known: resolver{}, seen: make(map[Cause]bool)}
	q.visit(make(map[*definition]bool), func(d *definition) {
		for _, p := range d.sites {
			for _, n := range p.notes {
				c.add(p, n)
			}
		}
	})
	out := slices.DeleteFunc(c.all, func(x Cause) bool {
		more := Cause{moreThan[x.Kind], x.What, x.File, x.Row}
		return c.seen[more]
	})
	slices.SortStableFunc(out, Cause.Compare)
	return out
}

// Compare orders causes by their sites.
func (c Cause) Compare(other Cause) int {
	return cmp.Or(cmp.Compare(c.File, other.File), cmp.Compare(c.Row, other.Row), cmp.Compare(c.What, other.What))
}

// moreThan :: kind → another one, of sites where all of that is learned as well.
var moreThan = map[CauseKind]CauseKind{Asked: Whole, ClockAsked: ClockWhole}

// causes collects causes, each once.
type causes struct {
	known resolver
	all   []Cause
	seen  map[Cause]bool
}

// add adds the causes of a note.
func (c *causes) add(p *site, n note) {
	if n.element != nil && !c.known.of(n.element).maybeSet() {
		return
	}
	if slices.Contains(leaving, n.kind) {
		c.leaves(p, n)
		return
	}
	all, variable, computed := c.valuesOf(n)
	if f := n.function; f != nil && f.Clock && computed {
		c.note(p, ClockWhole, f.Name)
	}
	if !computed && (n.kind == composed || n.kind == derived && variable < 2) {
		return
	}
	for _, f := range all {
		c.value(p, n, f, computed)
	}
}

// leaving are the kinds of notes that say why a request may be left to OPA.
var leaving = []CauseKind{Numbers, Left}

// leaves adds the values of a note that may leave a request to OPA: those that may have numbers in an unusual form,
// or all of them.
func (c *causes) leaves(p *site, n note) {
	if n.argument != nil && !n.argument.varies {
		return
	}
	for _, o := range n.of {
		f := c.known.of(o)
		if !f.opaque && n.argument != nil { // what earlier calls have passed is compared with it
			f = c.known.of(n.argument.from.origin())
		}
		if f.opaque && (n.kind != Numbers || !f.isText) {
			c.note(p, n.kind, cmp.Or(f.text, n.text))
		}
	}
}

// valuesOf returns what the values of a note are, and how many of them are variable. Computed says that one of them
// cannot be in a question.
func (c *causes) valuesOf(n note) (all []facts, variable int, computed bool) {
	computed = n.kind == Whole
	root := false
	for _, o := range n.of {
		f := c.known.of(o)
		if f.variable() {
			variable++
		}
		computed, root = computed || f.computed, root || f.root
		all = append(all, f)
	}
	return all, variable, computed || root && (n.asks() || variable > 1)
}

// value adds the causes of one of the values of a note.
func (c *causes) value(p *site, n note, f facts, computed bool) {
	if f.opaque {
		c.note(p, n.kindOf(f, computed), cmp.Or(f.text, n.text))
	}
	switch {
	case f.raw && computed:
		c.note(p, ClockWhole, f.clock)
	case f.clock != "" && n.kind != derived:
		c.note(p, ClockAsked, f.clock)
	}
}

// asks reports whether something is found out about the values, and not just a part of one looked up.
func (n note) asks() bool {
	return n.kind == Asked || n.kind == composed || n.function != nil && !n.function.Part
}

// kindOf returns what is done with one of the values. Computed says that a value next to it cannot be in a
// question, so that it is forced.
func (n note) kindOf(f facts, computed bool) CauseKind {
	switch {
	case n.kind == Read:
		return Read
	case f.table: // there are as many answers as entries
		return Asked
	case n.kind == Elements:
		return Elements
	case computed:
		return Whole
	}
	return Asked
}

func (c *causes) note(p *site, kind CauseKind, what string) {
	cause := Cause{kind, what, p.File, p.Row}
	if !c.seen[cause] {
		c.seen[cause] = true
		c.all = append(c.all, cause)
	}
}

package evaluator

import (
	"cmp"
	"slices"
	"strings"

	"understudy/rego/opaque"
)

// CauseKind is what evaluations do at a place.
type CauseKind string

// The kinds of what is learned of a request.
const (
	// Whole means: a value is forced, so each value is another request to the policy.
	Whole CauseKind = "whole"
	// Elements means: a value is gone through. A short array is asked for its length, and any other value is
	// forced.
	Elements CauseKind = "elements"
	// Asked means: a question with few answers is asked about a value.
	Asked CauseKind = "asked"
	// ClockAsked means: a question is asked about the clock, for each request at its own time.
	ClockAsked CauseKind = "clock_asked"
	// ClockWhole means: what the clock shows is forced, so that the decision is for its moment alone.
	ClockWhole CauseKind = "clock_whole"
	// Read means: something below the value is looked up. That is forced as it is if a source has sealed it.
	Read CauseKind = "read"
	// Derived is for places that look up or call, where something is learned only if not all operands
	// can stay opaque. There are no causes of this kind.
	derived CauseKind = "derived"
)

// Cause is a place of the policy at which evaluations learn something of a request, or the reason for which
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

// place is where a closure learns something of a request. Nothing is learned without one: that is what the
// methods of a machine take, and scopes alone make them, with a note for explanations.
type place struct {
	opaque.Place
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
}

// nowhere is the place of what is asked about values that are of no request.
var nowhere = &place{}

// place makes the place of what is compiled now, where something may be learned of values, of all together.
func (s scope) place(kind CauseKind, of ...origin) *place {
	return s.noted(note{kind: kind, of: of})
}

// eachPlace is place of values of which each is asked about alone.
func (s scope) eachPlace(kind CauseKind, of []origin) *place {
	p := s.noted()
	for _, o := range of {
		p.notes = append(p.notes, note{kind: kind, of: []origin{o}, text: s.text()})
	}
	return p
}

// derive makes the place of a look-up or a call of a function, and the origin of its result.
func (s scope) derive(f *opaque.Function, of ...origin) (*place, origin) {
	return s.noted(note{kind: derived, function: f, of: of}), made(f, of)
}

func (s scope) noted(notes ...note) *place {
	p := &place{notes: notes}
	if s.at != nil {
		p.Place = opaque.Place{File: s.at.File, Row: s.at.Row}
	}
	for i := range notes {
		notes[i].text = s.text()
	}
	s.places = append(s.places, p)
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

// Causes returns what evaluations of the path may learn of a request, and where, in the order of the places.
// Of a value that is asked about a second time nothing more is learned. Not in it is what is forced because
// there is no room for questions: from the 65th of an evaluation on, and in policies with thousands of
// different ones.
func (q *Query) Causes() []Cause {
	c := causes{known: resolver{}, seen: make(map[Cause]bool)}
	q.visit(make(map[*definition]bool), func(d *definition) {
		for _, p := range d.places {
			for _, n := range p.notes {
				c.add(p, n)
			}
		}
	})
	out := slices.DeleteFunc(c.all, func(x Cause) bool {
		more := Cause{moreThan[x.Kind], x.What, x.File, x.Row}
		return c.seen[more]
	})
	slices.SortStableFunc(out, func(x, y Cause) int {
		return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Row, y.Row), cmp.Compare(x.What, y.What))
	})
	return out
}

// moreThan :: kind → another one, of places where all of that is learned as well.
var moreThan = map[CauseKind]CauseKind{Asked: Whole, ClockAsked: ClockWhole}

// causes collects causes, each once.
type causes struct {
	known resolver
	all   []Cause
	seen  map[Cause]bool
}

func (c *causes) add(p *place, n note) {
	all := make([]facts, len(n.of))
	variable, computed, root := 0, n.kind == Whole, false
	for i, o := range n.of {
		all[i] = c.known.of(o)
		if all[i].variable() {
			variable++
		}
		computed, root = computed || all[i].computed, root || all[i].root
	}
	computed = computed || root && (n.asks() || variable > 1)
	if f := n.function; f != nil && f.Clock && computed {
		c.note(p, ClockWhole, f.Name)
	}
	if n.kind == derived && !computed && variable < 2 {
		return
	}
	for _, f := range all {
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
}

// asks reports whether something is found out about the values, and not just a part of one looked up.
func (n note) asks() bool { return n.kind == Asked || n.function != nil && !n.function.Part }

// kindOf returns what is done with one of the values. Computed says that a value beside it cannot be in a
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

func (c *causes) note(p *place, kind CauseKind, what string) {
	cause := Cause{kind, what, p.File, p.Row}
	if !c.seen[cause] {
		c.seen[cause] = true
		c.all = append(c.all, cause)
	}
}

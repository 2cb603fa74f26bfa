package dependencies

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/instrument"
)

// CauseKind is what a place of a module does to the cost of decisions.
type CauseKind string

const (
	// Whole means: a value is used as it is, so each value is another request to the rule.
	Whole CauseKind = "whole"
	// Compared means: the rule only finds out something about a value.
	Compared CauseKind = "compared"
	// ClockBound means: a comparison with the clock says until when a decision is valid.
	ClockBound CauseKind = "clock_bound"
	// ClockUsed means: the clock is used for something else, so no decision is cached.
	ClockUsed CauseKind = "clock_used"
	// Impure means: a built-in has a value of its own at each call, so no decision is cached.
	Impure CauseKind = "impure"
	// NotUnderstood means: nothing is known of what the rule reads, so no decision is cached.
	NotUnderstood CauseKind = "not_understood"
)

// Cause is a place of a module that explains what decisions cost.
type Cause struct {
	// Kind says what is done there.
	Kind CauseKind
	// What is the value that is read, as Rego would write it, or the built-in that is called.
	What string
	// File is the module, and Row the line in it, from 1; empty if unknown.
	File string
	Row  int
}

// Causes returns the places that explain what the rule at ref depends on, by file and line.
// It is for messages, off the request path.
func (a *Analysis) Causes(ref ast.Ref) []Cause {
	found := causes{seen: map[Cause]bool{}}
	found.judge(a.of(ref, &found).Reads)
	slices.SortStableFunc(found.all, func(x, y Cause) int {
		return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Row, y.Row), cmp.Compare(x.What, y.What))
	})
	return found.all
}

// causes collects causes during a walk, each once. A nil one collects none.
type causes struct {
	all  []Cause
	seen map[Cause]bool
	uses []use
	// at is the expression or head that is walked.
	at *ast.Location
}

// use is a place in which a path is read.
type use struct {
	path []string
	at   *ast.Location
}

// observes reports whether no more is read than what is observed: a value that a call makes may be
// used as it is.
func (u use) observes() bool {
	if len(u.path) == 0 {
		return false
	}
	last := u.path[len(u.path)-1]
	return isObservation(last) && !observable[builtinOf(last)]
}

// reach notes where the walk is.
func (c *causes) reach(at *ast.Location) {
	if c != nil && at != nil {
		c.at = at
	}
}

// reads notes that a path is read. Only the end of the walk shows whether that is an observation.
func (c *causes) reads(path []string) {
	if c != nil {
		c.uses = append(c.uses, use{path, c.at})
	}
}

// calls notes a built-in, or that something is not understood.
func (c *causes) calls(kind CauseKind, builtin string) {
	if c != nil {
		c.note(kind, builtin, c.at)
	}
}

func (c *causes) note(kind CauseKind, what string, at *ast.Location) {
	cause := Cause{Kind: kind, What: what}
	if at != nil {
		cause.File, cause.Row = at.File, at.Row
	}
	if !c.seen[cause] {
		c.seen[cause] = true
		c.all = append(c.all, cause)
	}
}

// judge makes causes of the uses. What is observed of a value that is read whole in the end is the
// cause of that, unless a use of the value says so, or one of what is made of it.
func (c *causes) judge(reads *Reads) {
	var whole [][]string
	for _, u := range c.uses {
		if !u.observes() {
			whole = append(whole, u.path)
		}
	}
	for _, u := range c.uses {
		at := reads.wholeAt(u.path)
		explained := func(by []string) bool { return startsWith(u.path, by) && len(by) < len(u.path) }
		switch {
		case u.observes() && len(at) == len(u.path):
			c.note(Compared, wordsOf(u.path[:slices.IndexFunc(u.path, isObservation)]), u.at)
			continue
		case u.observes():
			u.path, explained = at, func(by []string) bool { return startsWith(by, at) }
		}
		if !slices.ContainsFunc(whole, explained) {
			c.note(Whole, wordsOf(u.path), u.at)
		}
	}
}

// wholeAt returns the beginning of a path at which everything is read.
func (r *Reads) wholeAt(path []string) []string {
	for i, name := range path {
		if r.whole {
			return path[:i]
		}
		r = r.children[name]
	}
	return path
}

// startsWith reports whether a path is at or below another.
func startsWith(path, above []string) bool {
	return len(above) <= len(path) && slices.Equal(above, path[:len(above)])
}

// wordsOf returns the value at a path as Rego would write it.
func wordsOf(path []string) string {
	out := ast.InputRootDocument.String()
	for _, name := range path {
		switch rest := strings.TrimPrefix(name, indexPrefix); {
		case strings.HasPrefix(name, callPrefix):
			builtin, operands, _ := strings.Cut(name[len(callPrefix):], "\x00")
			list := strings.Split(operands, "\x00")
			for i, o := range list {
				if o == "" {
					list[i] = out
				} else if len(o) > maxOperand || instrument.IsToken(builtin) {
					list[i] = "…" // too long to read, or a key
				}
			}
			out = builtin + "(" + strings.Join(list, ", ") + ")"
		case rest != name:
			out += "[" + rest + "]"
		case !plainName(name):
			return out
		case ast.IsVarCompatibleString(name):
			out += "." + name
		default:
			out += "[" + strconv.Quote(name) + "]"
		}
	}
	return out
}

// maxOperand is the longest operand that is shown, in bytes.
const maxOperand = 24

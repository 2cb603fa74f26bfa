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
	// read is the path of the value, in the names of the read set.
	read []string
}

// Causes returns the places that explain what the rule at ref depends on, by file and line.
// It is for messages, off the request path.
func (a *Analysis) Causes(ref ast.Ref) []Cause {
	found := causes{seen: map[string]bool{}}
	reads := a.of(ref, &found).Reads
	found.reduce()
	found.giveUp(reads)
	slices.SortStableFunc(found.all, func(x, y Cause) int {
		return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Row, y.Row), cmp.Compare(x.What, y.What))
	})
	return found.all
}

// causes collects causes during a walk, each once. A nil one collects none.
type causes struct {
	all  []Cause
	seen map[string]bool
	// at is the expression or head that is walked.
	at *ast.Location
}

// reach notes where the walk is.
func (c *causes) reach(at *ast.Location) {
	if c != nil && at != nil {
		c.at = at
	}
}

// reads notes a use of a value.
func (c *causes) reads(kind CauseKind, path []string) {
	if c == nil {
		return
	}
	what := path
	if i := slices.IndexFunc(path, isObservation); i >= 0 && kind == Compared {
		what = path[:i]
	}
	c.note(Cause{Kind: kind, What: wordsOf(what), read: slices.Clone(path)})
}

// reduce takes out what is read of a value that is read whole anyway.
func (c *causes) reduce() {
	var whole [][]string
	for _, cause := range c.all {
		if cause.Kind == Whole {
			whole = append(whole, cause.read)
		}
	}
	c.all = slices.DeleteFunc(c.all, func(cause Cause) bool {
		return slices.ContainsFunc(whole, func(w []string) bool {
			return startsWith(cause.read, w) && (cause.Kind == Compared || len(w) < len(cause.read))
		})
	})
}

// giveUp makes causes of what is read whole although the policy only finds out something about
// it. If that is for what is made of it, which is used whole, this other cause says so.
func (c *causes) giveUp(reads *Reads) {
	before := slices.Clone(c.all)
	c.all = slices.DeleteFunc(c.all, func(cause Cause) bool {
		return cause.Kind == Compared && reads.givenUp(cause.read) && slices.ContainsFunc(before, func(w Cause) bool {
			return w.Kind == Whole && startsWith(w.read, cause.read)
		})
	})
	for i, cause := range c.all {
		if cause.Kind == Compared && reads.givenUp(cause.read) {
			c.all[i].Kind, c.all[i].What = Whole, wordsOf(cause.read)
		}
	}
}

// startsWith reports whether a path is at or below another.
func startsWith(path, above []string) bool {
	return len(above) <= len(path) && slices.Equal(above, path[:len(above)])
}

// givenUp reports whether a value, of which something is found out, is read whole: elsewhere, or
// because too much is found out about it.
func (r *Reads) givenUp(path []string) bool {
	for _, name := range path {
		if r == nil || r.whole {
			return r != nil
		}
		r = r.children[name]
	}
	return r != nil && r.whole && len(path) > 0 && !isObservation(path[len(path)-1])
}

// calls notes a built-in, or that something is not understood.
func (c *causes) calls(kind CauseKind, builtin string) {
	if c != nil {
		c.note(Cause{Kind: kind, What: builtin})
	}
}

// clock notes where a rule depends on the clock.
func (c *causes) clock(rule *ast.Rule) {
	if c == nil {
		return
	}
	c.reach(rule.Location)
	eachExpr(rule, func(e *ast.Expr) {
		if isCall(e, ast.NowNanos.Name, 1) || isCall(e, ast.NowNanos.Name, 0) {
			c.reach(e.Location)
		}
	})
	c.calls(ClockUsed, ast.NowNanos.Name)
}

func (c *causes) note(cause Cause) {
	if c.at != nil {
		cause.File, cause.Row = c.at.File, c.at.Row
	}
	key := strings.Join([]string{string(cause.Kind), cause.What, cause.File, strconv.Itoa(cause.Row)}, "\x00")
	if !c.seen[key] {
		c.seen[key] = true
		c.all = append(c.all, cause)
	}
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

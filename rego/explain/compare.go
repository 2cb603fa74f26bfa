package explain

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxCauses is how many expressions explain a difference at most.
const maxCauses = 3

// Compare returns the expressions that make a candidate decide otherwise than the live
// policy, three at most, the decisive one first: for a denial the expression that failed,
// deepest down, in the rules that allowed it in the live policy; for an allowance the new
// expressions of the body that allowed it. What follows the first are the expressions above
// it that led there, or others. An expression that the candidate does not have any more is
// one of the live policy. Where the traces have no difference, such as of rules that the
// live policy does not ask, the candidate's alone says what failed, if anything did. Behind them
// are up to three places of data, which have no file.
func Compare(live, candidate Trace) []Expression {
	c := newComparer(live, candidate)
	for _, name := range union(live.Roots, candidate.Roots) {
		c.compare(name, true)
	}
	if len(c.leaves) == 0 {
		c.alone(candidate.Roots)
	}
	return append(c.causes(), placesOf(candidate.Data)...)
}

// placesOf are the expressions that stand for places of data. Of more than three the last one stands for all others, and
// is another one for others.
func placesOf(data []string) (out []Expression) {
	for i, text := range data {
		if i == maxCauses {
			return append(out, Expression{Text: fmt.Sprintf("and %d more places of data (%s)", len(data)-i, digest(data[i:]...))})
		}
		if len(text) > maxText {
			text = digest(text) + " " + text // which is not seen of the end
		}
		out = append(out, Expression{Text: bounded(text)})
	}
	return out
}

// digest distinguishes texts from others that begin alike.
func digest(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	return hex.EncodeToString(sum[:4])
}

func newComparer(live, candidate Trace) *comparer {
	return &comparer{live: byName(live), candidate: byName(candidate), compared: make(map[string]bool), explained: make(map[string]bool)}
}

// causes returns the causes and then the expressions that lead to them, each once.
func (c *comparer) causes() []Expression {
	var out []Expression
	for _, e := range append(c.leaves, c.way...) {
		if !slices.Contains(out, e) && len(out) < maxCauses {
			out = append(out, e)
		}
	}
	return out
}

func byName(t Trace) map[string][]Rule {
	out := make(map[string][]Rule)
	for _, r := range t.Rules {
		out[r.Name] = append(out[r.Name], r)
	}
	return out
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, name := range b {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// comparer goes down from the rules that were asked for.
type comparer struct {
	live, candidate map[string][]Rule
	// compared are the names whose rules were compared; explained those that were explained by
	// the candidate alone.
	compared, explained map[string]bool
	// leaves are the causes, way the expressions that lead to them, the nearest first.
	leaves, way []Expression
}

// compare looks for causes in the rules of a name, and in those that they refer to. It
// reports whether it has found one. asked says that it matters whether they are true.
func (c *comparer) compare(name string, asked bool) bool {
	if c.compared[name] {
		return false
	}
	c.compared[name] = true
	before := len(c.leaves)
	pairs := pair(c.live[name], c.candidate[name])
	if !sameValue(c.live[name], c.candidate[name]) {
		for _, p := range pairs {
			c.pair(p, asked)
		}
	}
	changed := false // another value may come from another rule
	if len(c.leaves) == before {
		for _, p := range pairs {
			changed = c.changedHead(p) || changed
		}
	}
	for _, p := range pairs {
		if len(c.leaves) > before && !changed {
			break
		}
		if p.candidate != nil {
			c.below(*p.candidate)
		}
	}
	return len(c.leaves) > before
}

// sameValue reports whether a rule of a single value has the same in both policies, as far
// as heads tell: then it does not matter which of its bodies gave it.
func sameValue(live, candidate []Rule) bool {
	a, b := heldHeads(live), heldHeads(candidate)
	return a != nil && slices.Equal(a, b) && !slices.ContainsFunc(slices.Concat(live, candidate), func(r Rule) bool { return r.Multi || r.Missed && r.Held })
}

func heldHeads(rules []Rule) []string {
	var out []string
	for _, r := range rules {
		if r.Held && !slices.Contains(out, r.Head) {
			out = append(out, r.Head)
		}
	}
	slices.Sort(out)
	return out
}

// couple is a rule of the live policy and the one that it is in the candidate. One of them
// may be nil.
type couple struct{ live, candidate *Rule }

// pair says which rule of one policy is which of the other: one that is equal, else the one
// with which it has most expressions in common, else the one that came farthest. Elements of a set and members of an
// object that have nothing in common are not each other.
func pair(live, candidate []Rule) []couple {
	out := make([]couple, len(candidate))
	taken := make([]bool, len(live))
	candidate = slices.Clone(candidate)
	slices.SortStableFunc(candidate, func(a, b Rule) int { return cmp.Compare(b.Failed, a.Failed) })
	for i := range candidate {
		out[i].candidate = &candidate[i]
	}
	for _, fits := range []func(l, r Rule) bool{
		func(l, r Rule) bool { return l.Head == r.Head && slices.EqualFunc(l.Body, r.Body, samePart) },
		func(l, r Rule) bool { return 2*common(l, r) > max(len(l.Body), len(r.Body)) },
		func(l, r Rule) bool { return common(l, r) > 0 && l.Head == r.Head },
		func(l, r Rule) bool { return common(l, r) > 0 },
		func(l, r Rule) bool { return l.Head == r.Head },
		func(l, r Rule) bool { return !l.Multi && !r.Multi },
	} {
		for i := range out {
			if out[i].live == nil {
				out[i].live = closest(*out[i].candidate, live, taken, fits)
			}
		}
	}
	for i := range live {
		if !taken[i] {
			out = append(out, couple{live: &live[i]})
		}
	}
	return out
}

// closest takes the rule that fits and has most expressions in common with r.
func closest(r Rule, live []Rule, taken []bool, fits func(l, r Rule) bool) *Rule {
	best := -1
	for i, l := range live {
		if !taken[i] && l.Default == r.Default && fits(l, r) && (best < 0 || common(l, r) > common(live[best], r)) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	taken[best] = true
	return &live[best]
}

func samePart(a, b Part) bool { return a.Key == b.Key }

// common is how many expressions two bodies have in common.
func common(a, b Rule) (n int) {
	for _, p := range a.Body {
		if has(b, p) {
			n++
		}
	}
	return n
}

func has(r Rule, p Part) bool {
	return slices.ContainsFunc(r.Body, func(other Part) bool { return samePart(other, p) })
}

// pair looks for the cause in a rule that has another outcome. That a default holds is a
// consequence, and so is that there is a value which somebody else compares.
func (c *comparer) pair(p couple, asked bool) {
	l, r := p.live, p.candidate
	switch {
	case p.isDefault():
	case r == nil:
		if l.counts(asked) {
			c.leaf(l.File, l.whole(), true)
		}
	case l == nil:
		if r.counts(asked) {
			c.newBody(*r)
		}
	case l.failsAs(*r):
		c.lost(*l, *r)
	case r.failsAs(*l):
		c.gained(*l, *r)
	}
}

// isDefault reports whether one of the two is a default.
func (p couple) isDefault() bool {
	return p.live != nil && p.live.Default || p.candidate != nil && p.candidate.Default
}

// counts reports whether it matters that the other policy does not have the rule. Asked is that of compare.
func (r Rule) counts(asked bool) bool { return r.Held && (asked || !r.plain()) }

// failsAs reports whether the rule holds, and does not as it is in the other policy.
func (r Rule) failsAs(other Rule) bool {
	return r.Held && other.Missed && (!other.Held || !r.Missed)
}

// whole stands for a rule as such.
func (r Rule) whole() Part {
	text := r.Head
	if len(r.Body) == 1 && r.Body[0].Text != r.Head && len(r.Head)+len(r.Body[0].Text) < maxText-4 {
		text += " if " + r.Body[0].Text
	}
	return Part{Line: r.Line, Text: text}
}

// constants are the texts and numbers in an expression.
var constants = regexp.MustCompile("\"[^\"]*\"|`[^`]*`|\\b[0-9][0-9.e+]*\\b")

// replaces reports whether a rule is another one than that of the live policy in its place: no expression is the same, or
// differs in constants alone.
func (r Rule) replaces(live Rule) bool {
	shapes := make(map[string]bool)
	for _, p := range r.Body {
		shapes[constants.ReplaceAllString(p.Key, "")] = true
	}
	return len(live.Body) > 0 && !slices.ContainsFunc(live.Body, func(p Part) bool {
		return p.Text == live.Head || shapes[constants.ReplaceAllString(p.Key, "")]
	})
}

// lost explains a body that was true, and is not any more.
func (c *comparer) lost(l, r Rule) {
	if r.replaces(l) {
		defer c.leaf(l.File, l.whole(), true)
	}
	if r.Failed < 0 {
		c.leaf(r.File, r.whole(), false)
		return
	}
	e := r.Body[r.Failed]
	if c.anyBelow(e) || !has(l, e) && c.aloneBelow(e) {
		c.led(r.File, e)
		return
	}
	if e.Inner != nil {
		c.leaf(r.File, *e.Inner, false)
	}
	c.leaf(r.File, e, false)
}

// gained explains a body that is true, and was not.
func (c *comparer) gained(l, r Rule) {
	if l.Failed < 0 {
		c.newBody(r)
		return
	}
	failed := l.Body[l.Failed]
	if i := slices.IndexFunc(r.Body, func(p Part) bool { return samePart(p, failed) }); i >= 0 {
		e := r.Body[i]
		if c.anyBelow(e) {
			c.led(r.File, e)
			return
		}
		c.leaf(r.File, e, false)
		return
	}
	for _, p := range r.Body {
		if !has(l, p) {
			c.leaf(r.File, p, false)
		}
	}
	c.leaf(l.File, failed, true)
}

// newBody explains by a whole body.
func (c *comparer) newBody(r Rule) {
	if len(r.Body) == 0 {
		c.leaf(r.File, r.whole(), false)
	}
	for _, p := range r.Body {
		c.leaf(r.File, p, false)
	}
}

// changedHead explains by the value of a rule that held in both policies. It reports whether it
// is not the same.
func (c *comparer) changedHead(p couple) bool {
	l, r := p.live, p.candidate
	if l == nil || r == nil || !r.Held || l.Head == r.Head {
		return false
	}
	c.leaf(r.File, r.whole(), false)
	return true
}

// below looks for causes in the rules that an evaluated body refers to.
func (c *comparer) below(r Rule) {
	for i, p := range r.Body {
		if !r.Held && i > r.Failed {
			return
		}
		if c.anyBelow(p) {
			c.led(r.File, p)
		}
	}
}

func (c *comparer) anyBelow(e Part) (found bool) {
	for _, name := range e.Rules {
		found = c.compare(name, slices.Contains(e.Asked, name)) || found
	}
	return found
}

func (c *comparer) leaf(file string, p Part, live bool) {
	c.leaves = append(c.leaves, Expression{File: file, Line: p.Line, Text: p.Text, Live: live})
}

// led notes an expression above a cause.
func (c *comparer) led(file string, p Part) {
	c.way = append(c.way, Expression{File: file, Line: p.Line, Text: p.Text})
}

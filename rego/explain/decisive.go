package explain

import "slices"

// Decisive returns the expressions that made one policy decide as it did, three at most, the
// decisive one first: for a denial the expression that failed, deepest down, and for an
// allowance the expressions of the body that is true. What follows the first are the
// expressions above it that led there, or others.
func Decisive(t Trace, allowed bool) []Expression {
	c := newComparer(Trace{}, t)
	for _, name := range t.Roots {
		rules := c.candidate[name]
		if !slices.ContainsFunc(rules, func(r Rule) bool { return r.Held && !r.Default }) {
			c.whyNot(name)
			continue
		}
		for _, r := range rules {
			if r.Held && !r.Default && !c.decidedBelow(r, allowed) {
				c.newBody(r)
			}
		}
	}
	return c.causes()
}

// decidedBelow explains a rule that only passes on the values of others, such as
// {"allowed": allow}, by the others. It reports whether that has found a cause.
func (c *comparer) decidedBelow(r Rule, allowed bool) (found bool) {
	if slices.ContainsFunc(r.Body, func(p Part) bool { return p.Text != r.Head }) {
		return false
	}
	for _, p := range r.Body {
		for _, name := range p.Rules {
			if allowed {
				found = c.why(name) || found
			} else {
				found = c.whyNot(name) || found
			}
		}
	}
	return found
}

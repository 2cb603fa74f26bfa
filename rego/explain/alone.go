package explain

import "slices"

// alone explains by the candidate's trace alone why the rules that were asked for are not
// true: the live policy says nothing of them.
func (c *comparer) alone(names []string) {
	for _, name := range names {
		c.whyNot(name)
	}
}

// aloneBelow explains an expression that failed, which the live policy does not have, by
// the rules that it refers to. It reports whether that adds a cause.
func (c *comparer) aloneBelow(e Part) (found bool) {
	for _, name := range e.Rules {
		if e.Negated && slices.Contains(e.Asked, name) || holdsMany(c.candidate[name]) {
			found = c.why(name) || found
			continue
		}
		found = c.whyNot(name) || found
	}
	return found
}

// holdsMany reports whether a set or an object has elements: then one of them is why an
// expression such as count(deny) == 0 fails.
func holdsMany(rules []Rule) bool {
	for _, r := range rules {
		if r.Multi && r.Held {
			return true
		}
	}
	return false
}

// why explains a rule that is true by the bodies that are.
func (c *comparer) why(name string) bool {
	before := len(c.leaves)
	if c.explained[name] {
		return false
	}
	c.explained[name] = true
	for _, r := range c.candidate[name] {
		if r.Held && !r.Default {
			c.newBody(r)
		}
	}
	return len(c.leaves) > before
}

// whyNot explains a rule that is not true by the body of which most was true, or by all
// bodies if none of them got anywhere.
func (c *comparer) whyNot(name string) bool {
	if c.explained[name] {
		return false
	}
	c.explained[name] = true
	before, farthest := len(c.leaves), -1
	for _, r := range c.candidate[name] {
		if r.Held && !r.Default {
			return false
		}
		farthest = max(farthest, r.Failed)
	}
	for _, r := range c.candidate[name] {
		if r.Default || r.Failed < 0 || r.Failed < farthest {
			continue
		}
		e := r.Body[r.Failed]
		switch {
		case c.aloneBelow(e):
			c.led(r.File, e)
			continue
		case e.Inner != nil:
			c.leaf(r.File, *e.Inner, false)
		}
		c.leaf(r.File, e, false)
	}
	return len(c.leaves) > before
}

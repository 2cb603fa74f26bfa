package input

import (
	"slices"
	"time"

	"understudy/authz"
	"understudy/rego"
)

// plan is one place of the input document that is read, with those below it: a tree as
// the document is one, made once for each read set and immutable. It takes from a request
// what the set names: the projection of the input document, and a key for it.
//
// A policy cannot tell two requests of one key apart. Every part writes what it is made of with
// its length, or whether it is there, so that the bytes of one never run into the next.
type plan struct {
	name rego.Name
	part part
	// below are the places below this one, sorted by name. A place without is read
	// whole.
	below []*plan
	// observed is set for a text of which only something is found out: that is in the key,
	// and not the text.
	observed *rego.Observed
}

// textual is a part that is a text, with whether it is there.
type textual interface {
	text(c *Check) (string, bool)
}

// newPlanOf returns the plan of a part below a name.
func newPlanOf(name string, p part, reads *rego.Reads) *plan {
	out := &plan{name: rego.NewName(name), part: p, below: p.plan(reads)}
	if _, ok := p.(textual); ok {
		out.observed = reads.Observations()
	}
	return out
}

// part is how a place of the input document is made of a request. It is immutable.
type part interface {
	// plan returns what is needed of the part for a read set.
	plan(reads *rego.Reads) []*plan
	// key appends what stands for the part in a key, so that no other follows from the
	// same bytes. It reports whether there is something below.
	key(c *Check, b []byte) ([]byte, bool)
	// value returns the part; absent if there is none.
	value(c *Check, below []*plan) (rego.Value, error)
}

func newPlan(reads *rego.Reads) *plan { return &plan{part: document, below: document.plan(reads)} }

// Plans of the whole document, and of all of it that does not need the body to be parsed.
var (
	// everything is for the decision log and for verification, withoutBody for a log
	// event whose body cannot be read at a reasonable cost.
	everything  = newPlan(rego.ReadsEverything)
	withoutBody = &plan{part: document, below: slices.DeleteFunc(document.plan(rego.ReadsEverything), func(p *plan) bool {
		switch p.part.(type) {
		case bodyPart, truncatedPart:
			return true
		}
		return false
	})}
)

func (p *plan) key(c *Check, b []byte, at *rego.Validity) []byte {
	if p.observed != nil {
		text, ok := p.part.(textual).text(c)
		if !ok {
			return append(b, 0)
		}
		return p.observed.Text(append(b, 1), text, at)
	}
	b, more := p.part.key(c, b)
	if more {
		for _, child := range p.below {
			b = child.key(c, b, at)
		}
	}
	return b
}

func (p *plan) value(c *Check) (rego.Value, error) { return p.part.value(c, p.below) }

// planOf returns the plan of a read set, which is made once and kept with the set.
func planOf(set *authz.ReadSet) *plan {
	return set.Derived(func(reads *rego.Reads) any { return newPlan(reads) }).(*plan)
}

// Key is of authz.Projector. A request that was decoded in full has none: it is unusual, and
// its decision is not cached.
func (c *Check) Key(set *authz.ReadSet, now time.Time, b []byte) ([]byte, bool) {
	if c.decoded != nil {
		return b, false
	}
	at := rego.ValidFrom(now)
	b = planOf(set).key(c, b, &at)
	return b, at.Until > at.Now
}

// Input is of authz.Projector.
func (c *Check) Input(reading *authz.Reading, set *authz.ReadSet) (rego.Input, error) {
	return c.input(reading, planOf(set))
}

// input makes the part of the input document that a plan takes. It works on a copy of
// the Check, as the live policy and experiments do this at the same time with readings
// of their own. The error is an *authz.BadRequest or that of the reading.
func (c *Check) input(reading *authz.Reading, p *plan) (rego.Input, error) {
	r := *c
	r.reading = reading
	if c.decoded != nil {
		err := c.parses()
		if err == nil {
			r.opaques, err = c.decoded.opaques()
		}
		if err != nil {
			return rego.Input{}, err
		}
	}
	value, err := p.value(&r)
	return value.Input(), err
}

// badRequest is the error of what does not parse. The reason quotes nothing.
func badRequest(reason string) error { return &authz.BadRequest{Reason: reason} }

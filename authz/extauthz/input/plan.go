package input

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"understudy/authz"
	"understudy/rego"
)

// plan is one place of the input document that is read, with those below it: a tree as
// the document is one, made once for each read set and immutable. It takes from a request
// what the set names: the projection of the input document, and a key for it.
//
// A policy cannot tell two requests of one key apart. Every place writes what it is made of
// with its length, or whether it is there, so that the bytes of one never run into the next.
// The places are the same for all requests of a read set, so that their names need not be
// in the key.
type plan struct {
	name string
	// field is the name as one of an object.
	field rego.Name
	// text makes a place that is a text, and part any other. A place inside of a message of
	// another API has neither: the message's type makes it.
	text textual
	part part
	// whole says that everything at and below this place is read.
	whole bool
	// below are the places below this one, sorted by name.
	below []*plan
	// observed is set for a text of which only something is found out: that is in the key,
	// and not the text.
	observed *rego.Observed
}

// textual is a place that is a text. It is immutable.
type textual interface {
	// text returns the text, and whether it is there.
	text(c *Check) (string, bool)
}

// part is how any other place of the input document is made of a request. It is immutable.
type part interface {
	// key appends what stands for the part in a key, so that no other follows from the
	// same bytes. It reports whether what is below has to follow.
	key(c *Check, b []byte, p *plan) ([]byte, bool)
	// value returns the part, or as much of it as is read; absent if there is none.
	value(c *Check, p *plan) (rego.Value, error)
}

// newPlan returns the plan of a place: a textual, a part, or nil.
func newPlan(name string, of any, reads *rego.Reads) *plan {
	p := &plan{name: name, field: rego.NewName(name), whole: reads.Whole()}
	p.part, _ = of.(part)
	if p.text, _ = of.(textual); p.text != nil {
		p.observed = reads.Observations()
		return p
	}
	if path, ok := of.(pathPart); ok {
		path.plan(p, reads)
		return p
	}
	names, below := reads.Names(), func(string) any { return nil }
	switch of := of.(type) {
	case *objectPart:
		names, below = slices.Sorted(maps.Keys(of.places)), func(name string) any { return of.places[name] }
	case *mapPart:
		below = func(name string) any { return entryText{of, name} }
	}
	for _, name := range names {
		if child := reads.Child(name); child != nil {
			p.below = append(p.below, newPlan(name, below(name), child))
		}
	}
	return p
}

// wholePlan is that of a place which is read whole.
var wholePlan = &plan{whole: true}

// Plans of the whole document, and of all of it that does not need the body to be parsed.
var (
	// everything is for the decision log and for verification, withoutBody for a log
	// event whose body cannot be read at a reasonable cost.
	everything  = newPlan("", document, rego.ReadsEverything)
	withoutBody = &plan{part: document, below: slices.DeleteFunc(slices.Clone(everything.below), func(p *plan) bool {
		return p.part == bodyPart{} || p.part == truncatedPart{}
	})}
)

// bodyPlaces are where the document has the body: as it was read, and as it was sent.
var bodyPlaces = [][]string{
	{"parsed_body"}, {"truncated_body"}, {"attributes", "request", "http", "body"}, {"attributes", "request", "http", "rawBody"},
}

// withBodyOf returns the plan of the whole document, of whose body it has what another plan
// takes.
func withBodyOf(taken *plan) *plan {
	p := everything
	for _, path := range bodyPlaces {
		p = p.with(path, taken.at(path))
	}
	return p
}

// at returns the place at a path below; nil if it is not read.
func (p *plan) at(path []string) *plan {
	for _, name := range path {
		i := slices.IndexFunc(p.below, func(child *plan) bool { return child.name == name })
		if i < 0 {
			return nil
		}
		p = p.below[i]
	}
	return p
}

// with returns a copy with another place at a path, or without it if that is nil. There has to
// be one.
func (p *plan) with(path []string, place *plan) *plan {
	out := *p
	out.below = slices.Clone(p.below)
	i := slices.IndexFunc(p.below, func(child *plan) bool { return child.name == path[0] })
	switch {
	case len(path) > 1:
		out.below[i] = p.below[i].with(path[1:], place)
	case place == nil:
		out.below = slices.Delete(out.below, i, i+1)
	default:
		out.below[i] = place
	}
	return &out
}

// child returns the place of a name below; nil if it is not read.
func (p *plan) child(name string) *plan {
	if p.whole {
		return wholePlan
	}
	for _, child := range p.below {
		if child.name == name {
			return child
		}
	}
	return nil
}

func (p *plan) key(c *Check, b []byte, at *rego.Validity) []byte {
	if p.text != nil {
		return p.textKey(c, b, at)
	}
	b, more := p.part.key(c, b, p)
	if more {
		for _, child := range p.below {
			b = child.key(c, b, at)
		}
	}
	return b
}

func (p *plan) textKey(c *Check, b []byte, at *rego.Validity) []byte {
	text, ok := p.text.text(c)
	switch {
	case !ok:
		return append(b, 0)
	case p.observed != nil:
		return p.observed.Text(append(b, 1), text, at)
	}
	return appendText(append(b, 1), text)
}

// appendText appends a text with its length.
func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func (p *plan) value(c *Check) (rego.Value, error) {
	if p.text == nil {
		return p.part.value(c, p)
	}
	text, ok := p.text.text(c)
	if !ok {
		return rego.Value{}, nil
	}
	return rego.String(text), nil
}

// object returns an object with the places below.
func (p *plan) object(c *Check) (rego.Value, error) {
	object := rego.NewObject(len(p.below))
	for _, child := range p.below {
		value, err := child.value(c)
		if err != nil {
			return rego.Value{}, err
		}
		object.Set(child.field, value)
	}
	return object.Value(), nil
}

// planOf returns the plan of a read set, which is made once and kept with the set.
func planOf(set *authz.ReadSet) *plan {
	return set.Derived(func(reads *rego.Reads) any { return newPlan("", document, reads) }).(*plan)
}

// Key is of authz.Projector. A request that was decoded in full has none: it is unusual, and
// its decision is not cached.
func (c *Check) Key(ctx context.Context, set *authz.ReadSet, now time.Time, b []byte) ([]byte, bool) {
	if c.full {
		return b, false
	}
	at := rego.ValidFrom(ctx, now)
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
	if c.full {
		// Of a request that the lazy decoder has read it is known that they parse.
		if err := c.parses(); err != nil {
			return rego.Input{}, err
		}
	}
	value, err := p.value(&r)
	return value.Input(), err
}

// badRequest is the error of what does not parse. The reason quotes nothing.
func badRequest(reason string) error { return &authz.BadRequest{Reason: reason} }

package extauthz

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/rego"
)

// plan is one place of the input document that is read, with those below it: a tree as
// the document is one, made once for each read set and immutable. It takes from a view
// what the set names: the part of the input document, and a key for it.
//
// Two views of one key have equal parts. Every part writes what it is made of with its
// length, or whether it is there, so that the bytes of one never run into the next.
type plan struct {
	name rego.Name
	part part
	// below are the places below this one, sorted by name. A place without is read
	// whole.
	below []*plan
}

// part is how a place of the input document comes from a view. It is immutable.
type part interface {
	// plan returns what is needed of the part for a read set.
	plan(reads *rego.Reads) []*plan
	// key appends what stands for the part in a key, so that no other follows from the
	// same bytes. It reports whether there is something below.
	key(v *view, b []byte) ([]byte, bool)
	// value returns the part; absent if there is none.
	value(v *view, below []*plan) (rego.Value, error)
}

func newPlan(reads *rego.Reads) any { return &plan{part: document, below: document.plan(reads)} }

func (p *plan) key(v *view, b []byte) []byte {
	b, more := p.part.key(v, b)
	if more {
		for _, child := range p.below {
			b = child.key(v, b)
		}
	}
	return b
}

func (p *plan) value(v *view) (rego.Value, error) { return p.part.value(v, p.below) }

// projector makes the parts of one request's input document.
type projector struct{ view *view }

// Key is of authz.Projector.
func (p projector) Key(set *authz.ReadSet, b []byte) ([]byte, bool) {
	return set.Derived(newPlan).(*plan).key(p.view, b), true
}

// Input is of authz.Projector.
func (p projector) Input(reading *authz.Reading, set *authz.ReadSet) (rego.Input, error) {
	v := *p.view
	v.reading = reading
	value, err := set.Derived(newPlan).(*plan).value(&v)
	return value.Input(), err
}

// objectPart is a place with fields of fixed names, absent if the request has none.
type objectPart struct {
	present func(*view) bool
	fields  map[string]part
}

func (o objectPart) plan(reads *rego.Reads) []*plan {
	var below []*plan
	for _, name := range sortedNames(o.fields) {
		child := reads.Child(name)
		if child == nil {
			continue
		}
		part := o.fields[name]
		below = append(below, &plan{name: rego.NewName(name), part: part, below: part.plan(child)})
	}
	return below
}

func (o objectPart) key(v *view, b []byte) ([]byte, bool) {
	if !o.present(v) {
		return append(b, 0), false
	}
	return append(b, 1), true
}

func (o objectPart) value(v *view, below []*plan) (rego.Value, error) {
	if !o.present(v) {
		return rego.Value{}, nil
	}
	return objectOf(v, below)
}

// objectOf returns an object with the places below it.
func objectOf(v *view, below []*plan) (rego.Value, error) {
	object := rego.NewObject(len(below))
	for _, child := range below {
		value, err := child.value(v)
		if err != nil {
			return rego.Value{}, err
		}
		object.Set(child.name, value)
	}
	return object.Value(), nil
}

// pairsPart is a place whose fields are the entries of a map, absent if it has none.
type pairsPart func(*view) []pair

func (p pairsPart) plan(reads *rego.Reads) []*plan {
	if reads.Whole() {
		return []*plan{{part: wholePairs(p)}}
	}
	var below []*plan
	for _, name := range reads.Names() {
		below = append(below, &plan{name: rego.NewName(name), part: entryPart{p, name}})
	}
	return below
}

func (p pairsPart) key(v *view, b []byte) ([]byte, bool) {
	if len(p(v)) == 0 {
		return append(b, 0), false
	}
	return append(b, 1), true
}

func (p pairsPart) value(v *view, below []*plan) (rego.Value, error) {
	if len(p(v)) == 0 {
		return rego.Value{}, nil
	}
	if len(below) == 1 {
		if whole, ok := below[0].part.(wholePairs); ok {
			return whole.value(v, nil)
		}
	}
	return objectOf(v, below)
}

// entryPart is one entry of a map.
type entryPart struct {
	pairs pairsPart
	name  string
}

func (entryPart) plan(*rego.Reads) []*plan { return nil }

func (e entryPart) key(v *view, b []byte) ([]byte, bool) {
	value, ok := lookup(e.pairs(v), e.name)
	if !ok {
		return append(b, 0), false
	}
	return appendText(append(b, 1), value), false
}

func (e entryPart) value(v *view, _ []*plan) (rego.Value, error) {
	value, ok := lookup(e.pairs(v), e.name)
	if !ok {
		return rego.Value{}, nil
	}
	return rego.String(value), nil
}

// wholePairs are all entries of a map. In the key they are sorted, for Envoy writes them
// in any order.
type wholePairs pairsPart

func (wholePairs) plan(*rego.Reads) []*plan { return nil }

func (w wholePairs) key(v *view, b []byte) ([]byte, bool) {
	pairs := sorted(slices.Clone(w(v)))
	b = binary.AppendUvarint(b, uint64(len(pairs)))
	for _, p := range pairs {
		b = appendText(appendText(b, p.name), p.value)
	}
	return b, false
}

func (w wholePairs) value(v *view, _ []*plan) (rego.Value, error) {
	object := rego.NewObject(len(w(v)))
	for _, p := range w(v) {
		object.Set(rego.NewName(p.name), rego.String(p.value))
	}
	return object.Value(), nil
}

// textPart is a text, absent if it is empty.
type textPart func(*view) string

func (textPart) plan(*rego.Reads) []*plan { return nil }

func (t textPart) key(v *view, b []byte) ([]byte, bool) { return appendText(b, t(v)), false }

func (t textPart) value(v *view, _ []*plan) (rego.Value, error) {
	text := t(v)
	if text == "" {
		return rego.Value{}, nil
	}
	return rego.String(text), nil
}

// derivedPart is a value that is a function of a text.
type derivedPart struct {
	text func(*view) string
	make func(text string) (rego.Value, error)
}

func (derivedPart) plan(*rego.Reads) []*plan { return nil }

func (d derivedPart) key(v *view, b []byte) ([]byte, bool) { return appendText(b, d.text(v)), false }

func (d derivedPart) value(v *view, _ []*plan) (rego.Value, error) { return d.make(d.text(v)) }

// messagePart is a message, absent if the request has none.
type messagePart struct {
	message func(*view) message
	make    func(wire []byte) (rego.Value, error)
}

func (messagePart) plan(*rego.Reads) []*plan { return nil }

func (m messagePart) key(v *view, b []byte) ([]byte, bool) {
	message := m.message(v)
	if !message.present {
		return append(b, 0), false
	}
	return appendText(append(b, 1), message.wire), false
}

func (m messagePart) value(v *view, _ []*plan) (rego.Value, error) {
	message := m.message(v)
	if !message.present {
		return rego.Value{}, nil
	}
	return m.make([]byte(message.wire))
}

// integerPart is a number, absent if it is zero.
type integerPart func(*view) int64

func (integerPart) plan(*rego.Reads) []*plan { return nil }

func (i integerPart) key(v *view, b []byte) ([]byte, bool) {
	return binary.AppendVarint(b, i(v)), false
}

func (i integerPart) value(v *view, _ []*plan) (rego.Value, error) {
	if i(v) == 0 {
		return rego.Value{}, nil
	}
	return rego.Integer(i(v)), nil
}

// constantPart is the same in every request that a view reads.
type constantPart struct{ of rego.Value }

func (constantPart) plan(*rego.Reads) []*plan { return nil }

func (constantPart) key(_ *view, b []byte) ([]byte, bool) { return b, false }

func (c constantPart) value(*view, []*plan) (rego.Value, error) { return c.of, nil }

// appendText appends a text with its length.
func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// decoded returns how a message of a type becomes a value.
func decoded[M proto.Message](object func(M) map[string]any) func([]byte) (rego.Value, error) {
	return func(wire []byte) (rego.Value, error) {
		var zero M
		m := zero.ProtoReflect().New().Interface().(M)
		if err := proto.Unmarshal(wire, m); err != nil {
			return rego.Value{}, badRequest("The request is not a CheckRequest.")
		}
		return rego.ValueOf(object(m))
	}
}

var (
	decodeAddress = decoded(addressOf)
	decodeTime    = decoded(timeOf)
)

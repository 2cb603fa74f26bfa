package replay

import (
	"errors"
	"strconv"

	"understudy/authz"
	"understudy/authz/logreader"
	"understudy/rego"
)

// errInput is of an input document that OPA cannot take, such as one with endless numbers.
var errInput = errors.New("the recorded input document cannot be read")

// recordedInput is an input document as it was recorded, as evaluations ask for it. Of a name that comes
// twice the last one counts.
type recordedInput struct {
	document logreader.Document
	// http is what stands at httpPath, since most of what is asked is below that; nil if that is
	// not known, or nothing.
	http logreader.Document
	// watch notes what is asked for; nil if nobody wants to know.
	watch *fieldUse
}

// parts is of [authz.Request]: what is asked for is made of the text.
func (in recordedInput) parts(*authz.ReadBudget) (rego.Request, error) { return in, nil }

// whole is the Source of an [authz.Request]: all of the text.
func (in recordedInput) whole(*authz.ReadBudget) (rego.Input, error) {
	in.watch.whole()
	return inputOf(in.document)
}

// At is of [rego.Request].
func (in recordedInput) At(path *rego.Path) (rego.Value, error) {
	in.watch.at(path)
	at, begin := in.begin(path)
	for i := begin; i < len(path.Keys); i++ {
		name, isName := path.Name(i)
		if !isName {
			return below(at, path, i)
		}
		if at = at.At(name); at == nil {
			return rego.Value{}, nil
		}
	}
	return below(at, path, len(path.Keys))
}

// httpPath is where a document for Envoy has the HTTP request.
var httpPath = [...]string{"attributes", "request", "http"}

// begin returns a document from which on a path leads to what it leads to from the whole, and how many of its
// keys lead there.
func (in recordedInput) begin(path *rego.Path) (at logreader.Document, keys int) {
	if in.http == nil || len(path.Keys) < len(httpPath) {
		return in.document, 0
	}
	for i, want := range httpPath {
		if name, _ := path.Name(i); name != want {
			return in.document, 0
		}
	}
	return in.http, len(httpPath)
}

// below returns what stands in a document at the keys of a path from one on.
func below(d logreader.Document, path *rego.Path, from int) (rego.Value, error) {
	value, err := recordedValue(d)
	if err != nil {
		return rego.Value{}, err
	}
	return value.Below(path, from), nil
}

// Sealed is of [rego.Request]: nothing is.
func (recordedInput) Sealed(*rego.Path) bool { return false }

// Seal is of [rego.Request].
func (recordedInput) Seal(_ *rego.Path, b []byte) []byte { return b }

func inputOf(text logreader.Document) (rego.Input, error) {
	value, err := recordedValue(text)
	return value.Input(), err
}

// recordedValue makes a value of a document.
func recordedValue(text logreader.Document) (rego.Value, error) {
	value, plain := valueOf(text)
	if plain {
		return value, nil
	}
	document, err := text.Value()
	if err != nil {
		return rego.Value{}, errInput
	}
	if value, err = rego.ValueOf(document); err != nil {
		return rego.Value{}, errInput
	}
	return value, nil
}

// valueOf makes a value of a document without anything in between. It reports false for one
// with numbers that are more than integers of 18 digits: those are read with care.
func valueOf(d logreader.Document) (v rego.Value, plain bool) {
	switch d.Kind() {
	case '{':
		return objectOf(d)
	case '[':
		var elements []rego.Value
		for element := range d.Elements() {
			if v, plain = valueOf(element); !plain {
				return v, false
			}
			elements = append(elements, v)
		}
		return rego.Array(elements), true
	case '"':
		return rego.String(d.Text()), true
	case 't', 'f':
		return rego.Boolean(d.Kind() == 't'), true
	case 'n':
		return rego.Null(), true
	}
	n, err := strconv.ParseInt(string(d), 10, 64)
	return rego.Integer(n), err == nil && len(d) <= 18 && d[0] != '-'
}

// objectOf makes an object. One with a name that comes twice is left to encoding/json.
func objectOf(d logreader.Document) (rego.Value, bool) {
	names := 0
	for range d.Members() {
		names++
	}
	out := rego.NewObject(names)
	seen := make(map[string]bool, names)
	for name, document := range d.Members() {
		value, plain := valueOf(document)
		if !plain || seen[string(name)] {
			return rego.Value{}, false
		}
		text := string(name)
		seen[text] = true
		out.Set(rego.NewName(text), value)
	}
	return out.Value(), true
}

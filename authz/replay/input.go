package replay

import (
	"encoding/json"
	"errors"

	"understudy/authz"
	"understudy/authz/recorded"
	"understudy/rego"
)

// errInput is of an input document that OPA cannot take, such as one with endless numbers.
var errInput = errors.New("the recorded input document cannot be read")

// recordedInput makes what a policy reads of an input document as it was recorded. It is an
// authz.Projector: the projection is text as well, in the order of the recording, so that two
// requests of one key have equal inputs. Requests that were written in another order are only
// not known to be alike.
type recordedInput struct{ document recorded.Document }

// Key is of authz.Projector.
func (in recordedInput) Key(set *authz.ReadSet, b []byte) ([]byte, bool) {
	return appendProjection(b, in.document, set.Reads), true
}

// Input is of authz.Projector.
func (in recordedInput) Input(_ *authz.Reading, set *authz.ReadSet) (rego.Input, error) {
	return inputOf(appendProjection(nil, in.document, set.Reads))
}

// whole returns the input document.
func (in recordedInput) whole(*authz.Reading) (rego.Input, error) { return inputOf(in.document) }

func inputOf(text recorded.Document) (rego.Input, error) {
	document, err := text.Value()
	if err != nil {
		return rego.Input{}, errInput
	}
	value, err := rego.ValueOf(document)
	if err != nil {
		return rego.Input{}, errInput
	}
	return value.Input(), nil
}

// appendProjection appends what a set names of a document, as JSON: of objects what is read
// below them, and every other value whole. That is more than the set names in places, which
// makes no difference to the policy.
func appendProjection(b []byte, d recorded.Document, reads *rego.Reads) []byte {
	if reads.Whole() || d.Kind() != '{' {
		return append(b, d...)
	}
	b = append(b, '{')
	first := true
	for name, value := range d.Members() {
		below := reads.Child(string(name))
		if below == nil {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendName(b, name), ':')
		b = appendProjection(b, value, below)
	}
	return append(b, '}')
}

// appendName appends a name of an object as JSON.
func appendName(b, name []byte) []byte {
	for _, c := range name {
		if c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			quoted, err := json.Marshal(string(name))
			if err != nil {
				return append(b, `""`...)
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), name...), '"')
}

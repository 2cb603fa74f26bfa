package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// member is one name of a JSON object with its value, as it was written.
type member struct {
	name  string
	value json.RawMessage
}

// errDuplicate says that an object has a name twice, which readers understand
// differently.
var errDuplicate = errors.New("a name occurs twice in an object")

// members returns the members of a JSON object in the order of the document. It is
// exact about names, where encoding/json would take Name for name.
func members(object json.RawMessage) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is no JSON object")
	}
	var out []member
	seen := make(map[string]bool)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: t.(string)}
		if seen[m.name] {
			return nil, errDuplicate
		}
		seen[m.name] = true
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	_, err := d.Token()
	return out, err
}

// wellFormed reports whether a body is one JSON value in UTF-8.
func wellFormed(body []byte) bool { return utf8.Valid(body) && json.Valid(body) }

// text returns the value of a JSON string.
func text(value json.RawMessage) (string, bool) {
	var s *string
	if err := json.Unmarshal(value, &s); err != nil || s == nil {
		return "", false
	}
	return *s, true
}

// withMember returns a document in which a member has a value. All else stays as it
// was written.
func withMember(document []byte, name string, value any) ([]byte, error) {
	all, err := members(document)
	if err != nil {
		return nil, err
	}
	encoded, err := encode(value)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteByte('{')
	for _, m := range all {
		if m.name == name {
			continue
		}
		key, err := encode(m.name)
		if err != nil {
			return nil, err
		}
		out.Write(key)
		out.WriteByte(':')
		out.Write(m.value)
		out.WriteByte(',')
	}
	key, err := encode(name)
	if err != nil {
		return nil, err
	}
	out.Write(key)
	out.WriteByte(':')
	out.Write(encoded)
	out.WriteByte('}')
	return out.Bytes(), nil
}

// encode is JSON without escapes for HTML.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

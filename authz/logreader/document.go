package logreader

import (
	"bytes"
	"encoding/json"
	"iter"
)

// Document is one JSON value as it was written, without blanks around it. All documents of this package are valid: what
// looks into them need not check that. Nil is no document.
type Document []byte

// Kind returns the first byte of the value, which says what it is: '{', '[', '"', 't', 'f',
// 'n', or that of a number. It is 0 for no document.
func (d Document) Kind() byte {
	if len(d) == 0 {
		return 0
	}
	return d[0]
}

// Members are the members of an object in the order in which they were written; none of any
// other value. A name is valid until the next one. A name may come twice: the later one counts,
// as for encoding/json.
func (d Document) Members() iter.Seq2[[]byte, Document] {
	return func(yield func([]byte, Document) bool) {
		if d.Kind() != '{' {
			return
		}
		for i := blank(d, 1); i < len(d) && d[i] == '"'; {
			end := valueEnd(d, i)
			name := unquoted(d[i:end])
			i = blank(d, blank(d, end)+1) // the colon
			end = valueEnd(d, i)
			if !yield(name, d[i:end:end]) {
				return
			}
			i = blank(d, blank(d, end)+1) // the comma
		}
	}
}

// Elements are the elements of an array; none of any other value.
func (d Document) Elements() iter.Seq[Document] {
	return func(yield func(Document) bool) {
		if d.Kind() != '[' {
			return
		}
		for i := blank(d, 1); i < len(d) && d[i] != ']'; {
			end := valueEnd(d, i)
			if !yield(d[i:end:end]) {
				return
			}
			i = blank(d, blank(d, end)+1)
		}
	}
}

// At returns what stands at a path of names in an object; nil if there is nothing.
func (d Document) At(names ...string) Document {
	for _, name := range names {
		var found Document
		for key, value := range d.Members() {
			if string(key) == name {
				found = value
			}
		}
		if d = found; d == nil {
			return nil
		}
	}
	return d
}

// Text returns the text of a string; empty for any other value.
func (d Document) Text() string {
	if d.Kind() != '"' {
		return ""
	}
	return string(unquoted(d))
}

// Texts returns the strings of an array.
func (d Document) Texts() (out []string) {
	for element := range d.Elements() {
		if element.Kind() == '"' {
			out = append(out, element.Text())
		}
	}
	return out
}

// Value returns the value in the types of encoding/json, with numbers as json.Number.
func (d Document) Value() (any, error) {
	if len(d) == 0 {
		return nil, nil
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(d))
	decoder.UseNumber()
	err := decoder.Decode(&value)
	return value, err
}

// unquoted returns what a JSON string says, without a copy if that is what stands there.
func unquoted(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 && ascii(inner) {
		return inner
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return inner
	}
	return []byte(text)
}

// ascii reports whether a text has no byte that could be a part of broken UTF-8.
func ascii(text []byte) bool {
	for _, c := range text {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// blank returns the place of the first byte from i on that is no white space.
func blank(d []byte, i int) int {
	for i < len(d) && (d[i] == ' ' || d[i] == '\t' || d[i] == '\n' || d[i] == '\r') {
		i++
	}
	return i
}

// valueEnd returns the place behind the value that begins at i. It does not recurse, so that
// nesting costs nothing.
func valueEnd(d []byte, i int) int {
	depth := 0
	for i < len(d) {
		switch d[i] {
		case '"':
			i = stringEnd(d, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return i // behind a number
			}
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
			continue
		default:
			i = literalEnd(d, i)
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// stringEnd returns the place behind the string that begins at i. It looks for quotes, most of
// which end a string: texts are long.
func stringEnd(d []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(d[i:], '"')
		if n < 0 {
			return len(d)
		}
		i += n
		escapes := 0
		for d[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// literalEnd returns the place behind a number, true, false or null.
func literalEnd(d []byte, i int) int {
	for ; i < len(d); i++ {
		switch d[i] {
		case ',', ':', '}', ']', ' ', '\t', '\n', '\r':
			return i
		}
	}
	return i
}

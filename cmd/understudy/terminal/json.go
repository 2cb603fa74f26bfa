package terminal

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// WriteJSON writes a message as JSON with an indent and a line break behind it. It is the
// same text from every build of the program: that of protojson has blanks by chance.
func WriteJSON(w io.Writer, m proto.Message) error {
	text, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	return writeIndented(w, text)
}

// Field is a field of JSON.
type Field struct{ Name, Value string }

// WriteJSONWith is WriteJSON with more fields, which the message does not have, at its
// beginning.
func WriteJSONWith(w io.Writer, m proto.Message, more ...Field) error {
	text, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	for _, f := range slices.Backward(more) {
		field, err := json.Marshal(map[string]string{f.Name: f.Value})
		if err != nil {
			return err
		}
		if rest := bytes.TrimPrefix(text, []byte("{")); !bytes.Equal(rest, []byte("}")) {
			field = append(append(field[:len(field)-1], ','), rest...)
		}
		text = field
	}
	return writeIndented(w, text)
}

// WriteValue writes a value that is no message as JSON, in the same form.
func WriteValue(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// writeIndented writes JSON with an indent and a line break behind it.
func writeIndented(w io.Writer, text []byte) error {
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err := w.Write(out.Bytes())
	return err
}

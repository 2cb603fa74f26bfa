package policydiff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
)

// Value is something other than a module in which two policies differ.
type Value struct {
	// Path is where it is, such as rules[0] or data.roles.auditor.
	Path string
	// Left and Right are JSON, empty where a policy does not have it.
	Left, Right string
}

// values are those of two policies.
func values(left, right *adminpb.Policy) (out differences) {
	out.text("displayName", left.GetDisplayName(), right.GetDisplayName())
	out.rules(left.GetRules(), right.GetRules())
	out.data("data", structOf(left.GetData()), structOf(right.GetData()))
	out.list("exemptedProjects", left.GetExemptedProjects(), right.GetExemptedProjects())
	for _, key := range keysOf(left.GetAnnotations(), right.GetAnnotations()) {
		out.add(member("annotations", key), entryJSON(entryOf(left.GetAnnotations(), key)), entryJSON(entryOf(right.GetAnnotations(), key)))
	}
	return out
}

// differences are found one after the other.
type differences []Value

// add notes two texts of JSON, if they differ.
func (d *differences) add(path, left, right string) {
	if left != right {
		*d = append(*d, Value{path, left, right})
	}
}

// text notes two texts, of which an empty one is none.
func (d *differences) text(path, left, right string) { d.add(path, quoted(left), quoted(right)) }

// list notes two lists of texts.
func (d *differences) list(path string, left, right []string) {
	d.add(path, encoded(left, len(left) == 0), encoded(right, len(right) == 0))
}

// rules compares the chains by their places: their order is what they mean.
func (d *differences) rules(left, right []*adminpb.PolicyRule) {
	at := func(rules []*adminpb.PolicyRule, i int) string {
		if i >= len(rules) {
			return ""
		}
		return jsonOf(rules[i])
	}
	for i := range max(len(left), len(right)) {
		d.add("rules["+strconv.Itoa(i)+"]", at(left, i), at(right, i))
	}
}

// data compares two values of the data, and goes down to where they differ: in objects, and in
// lists of one length. Nil is none.
func (d *differences) data(path string, left, right *structpb.Value) {
	if proto.Equal(left, right) {
		return
	}
	l, r := left.GetStructValue(), right.GetStructValue()
	if l != nil && r != nil {
		for _, key := range keysOf(l.Fields, r.Fields) {
			d.data(member(path, key), l.Fields[key], r.Fields[key])
		}
		return
	}
	x, y := left.GetListValue().GetValues(), right.GetListValue().GetValues()
	if len(x) > 0 && len(x) == len(y) {
		for i := range x {
			d.data(path+"["+strconv.Itoa(i)+"]", x[i], y[i])
		}
		return
	}
	d.add(path, jsonOf(left), jsonOf(right))
}

// structOf is a document as a value; nil if there is none.
func structOf(s *structpb.Struct) *structpb.Value {
	if len(s.GetFields()) == 0 {
		return nil
	}
	return structpb.NewStructValue(s)
}

// plain are the keys that need no quotes in a path.
var plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// member is the path of what is under a key, as Rego writes it.
func member(path, key string) string {
	if plain.MatchString(key) {
		return path + "." + key
	}
	return path + "[" + quoted(key) + "]"
}

// quoted is a text as JSON, of which an empty one is none.
func quoted(text string) string { return encoded(text, text == "") }

// encoded is a value as JSON, empty if it is none.
func encoded(value any, none bool) string {
	if none {
		return ""
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return fmt.Sprintf("%q", err.Error())
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

// jsonOf is a message as JSON without blanks, which protojson puts in at random; empty if there
// is none.
func jsonOf(m proto.Message) string {
	if !m.ProtoReflect().IsValid() {
		return ""
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return fmt.Sprintf("%q", err.Error())
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return fmt.Sprintf("%q", err.Error())
	}
	return b.String()
}

package policyfile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// ComputeRevisionID returns what the revision_id has to be: the hash of the
// canonical form of the lock, as Chef's own tools compute it. RFC-042 leaves that
// form to a later document. What is not in it, such as the source of a cookbook, does
// not count.
func (l *Lock) ComputeRevisionID() string {
	h := sha256.New()
	l.canonical(h)
	return hex.EncodeToString(h.Sum(nil))
}

// canonical writes the canonical form. Writes to a hash do not fail.
func (l *Lock) canonical(w io.Writer) {
	fmt.Fprintf(w, "name:%s\n", l.Name)
	for _, item := range l.RunList {
		fmt.Fprintf(w, "run-list-item:%s\n", item)
	}
	for _, list := range l.NamedRunLists {
		for _, item := range list.Items {
			fmt.Fprintf(w, "named-run-list:%s;run-list-item:%s\n", list.Name, item)
		}
	}
	byName := slices.SortedFunc(slices.Values(l.Cookbooks), func(a, b Cookbook) int { return cmp.Compare(a.Name, b.Name) })
	for _, c := range byName {
		fmt.Fprintf(w, "cookbook:%s;id:%s\n", c.Name, c.Identifier)
	}
	fmt.Fprintf(w, "default_attributes:%s\n", canonicalAttributes(l.DefaultAttributes))
	fmt.Fprintf(w, "override_attributes:%s\n", canonicalAttributes(l.OverrideAttributes))
}

// canonicalAttributes is the canonical form of an object; that of none is the same as
// that of an empty one.
func canonicalAttributes(object json.RawMessage) string {
	if object == nil {
		return "{}"
	}
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return "{}" // It was parsed before, so this does not happen.
	}
	var b strings.Builder
	canonicalValue(&b, value)
	return b.String()
}

// canonicalValue writes sorted keys, no blanks, and strings between quotes as they
// are, without escapes.
func canonicalValue(b *strings.Builder, value any) {
	switch v := value.(type) {
	case map[string]any:
		b.WriteByte('{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(`"` + key + `":`)
			canonicalValue(b, v[key])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, element := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			canonicalValue(b, element)
		}
		b.WriteByte(']')
	case string:
		b.WriteString(`"` + v + `"`)
	case json.Number:
		b.WriteString(canonicalNumber(v))
	case nil:
		b.WriteString("null")
	default:
		fmt.Fprint(b, v)
	}
}

// canonicalNumber is an integer as it was written, but that it has no negative zero, and
// any other number with fifteen digits.
func canonicalNumber(n json.Number) string {
	if n == "-0" {
		return "0"
	}
	if !strings.ContainsAny(n.String(), ".eE") {
		return n.String()
	}
	f, _ := n.Float64() // Out of range, it is an infinity.
	return fmt.Sprintf("%.15g", f)
}

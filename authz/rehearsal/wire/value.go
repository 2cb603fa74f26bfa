package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrForm says that a payload is not what its kind has.
var ErrForm = errors.New("rehearsal: the payload is not what its kind has")

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// The tags of values in the types of encoding/json, with numbers as json.Number.
const (
	tagNull byte = iota
	tagFalse
	tagTrue
	tagString
	tagNumber
	tagArray
	tagObject
)

// maxDepth bounds the nesting of values.
const maxDepth = 10_100

// appendAny appends a value that is nested in so many others. The error is that of one which
// the other side would not take.
func appendAny(b []byte, value any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested more than %d levels deep", maxDepth)
	}
	switch v := value.(type) {
	case nil:
		return append(b, tagNull), nil
	case bool:
		if v {
			return append(b, tagTrue), nil
		}
		return append(b, tagFalse), nil
	case string:
		return appendText(append(b, tagString), v), nil
	case json.Number:
		return appendText(append(b, tagNumber), string(v)), nil
	case []any:
		b = binary.AppendUvarint(append(b, tagArray), uint64(len(v)))
		for _, element := range v {
			var err error
			if b, err = appendAny(b, element, depth+1); err != nil {
				return nil, err
			}
		}
		return b, nil
	case map[string]any:
		return appendMap(append(b, tagObject), v, depth)
	}
	return nil, fmt.Errorf("it has a value of the type %T, which is none of JSON", value)
}

// appendMap appends the fields in the order of their names.
func appendMap(b []byte, fields map[string]any, depth int) ([]byte, error) {
	b = binary.AppendUvarint(b, uint64(len(fields)))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var err error
		if b, err = appendAny(appendText(b, name), fields[name], depth+1); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// decoder takes values from the front of what is left. Once something is wrong, it has
// failed and nothing is left. Its texts share the memory of the whole.
type decoder struct {
	rest   string
	failed bool
}

func (d *decoder) fail() { d.rest, d.failed = "", true }

// end returns the error of a payload that was decoded, all of which has to be used.
func (d *decoder) end() error {
	if d.failed || d.rest != "" {
		return ErrForm
	}
	return nil
}

func (d *decoder) byte() byte {
	if d.rest == "" {
		d.fail()
		return 0
	}
	c := d.rest[0]
	d.rest = d.rest[1:]
	return c
}

func (d *decoder) bool() bool {
	c := d.byte()
	if c > 1 {
		d.fail()
	}
	return c == 1
}

func (d *decoder) uvarint() (n uint64) {
	for shift := 0; shift < 64; shift += 7 {
		c := d.byte()
		if n |= uint64(c&0x7f) << shift; c < 0x80 {
			return n
		}
	}
	d.fail()
	return 0
}

func (d *decoder) varint() int64 {
	n := d.uvarint()
	return int64(n>>1) ^ -int64(n&1)
}

// count takes a number of things that are still to come, each of a byte at least.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) text() string {
	n := d.count()
	text := d.rest[:n]
	d.rest = d.rest[n:]
	return text
}

func (d *decoder) any(depth int) any {
	if depth > maxDepth {
		d.fail()
	}
	switch d.byte() {
	case tagNull:
	case tagFalse:
		return false
	case tagTrue:
		return true
	case tagString:
		return d.text()
	case tagNumber:
		return json.Number(d.text())
	case tagArray:
		out := make([]any, d.count())
		for i := range out {
			out[i] = d.any(depth + 1)
		}
		return out
	case tagObject:
		return d.fields(depth)
	default:
		d.fail()
	}
	return nil
}

func (d *decoder) fields(depth int) map[string]any {
	n := d.count()
	out := make(map[string]any, n)
	for range n {
		name := d.text()
		out[name] = d.any(depth + 1)
		if d.failed {
			return nil
		}
	}
	return out
}

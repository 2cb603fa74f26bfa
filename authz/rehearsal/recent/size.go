package recent

import "understudy/authz"

const (
	// bytesPerRequest is about what a request takes in addition to what was sent, and bytesPerValue
	// what a value of a decision takes in addition to its text.
	bytesPerRequest = 1 << 10
	bytesPerValue   = 64
)

// sizeOf is about the memory of a decision, in bytes. One that is interned is there once for
// all requests, and is small.
func sizeOf(d authz.Decision) int {
	if d.Rendering() != nil {
		return 0
	}
	n := len(d.Rule) + len(d.Reason) + len(d.Body) + sizeOfValue(d.Metadata)
	for _, fields := range [][]authz.Field{d.Headers, d.ResponseHeaders, d.SetQuery} {
		for _, f := range fields {
			n += bytesPerValue + len(f.Name) + len(f.Value)
		}
	}
	for _, names := range [][]string{d.RemoveHeaders, d.RemoveQuery} {
		for _, name := range names {
			n += bytesPerValue + len(name)
		}
	}
	for _, l := range d.Labels {
		n += bytesPerValue + len(l.Name) + len(l.Value)
	}
	return n
}

// sizeOfValue is that of a value in the types of encoding/json.
func sizeOfValue(v any) int {
	n := bytesPerValue
	switch v := v.(type) {
	case map[string]any:
		for name, element := range v {
			n += len(name) + sizeOfValue(element)
		}
	case []any:
		for _, element := range v {
			n += sizeOfValue(element)
		}
	case string:
		n += len(v)
	}
	return n
}

package authz

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// pointer is a JSON pointer (RFC 6901), one key or index a segment.
type pointer []string

var errPointer = errors.New("is no JSON pointer: it has to begin with a slash")

func parsePointer(text string) (pointer, error) {
	below, ok := strings.CutPrefix(text, "/")
	if !ok {
		return nil, errPointer
	}
	p := pointer(strings.Split(below, "/"))
	for i, segment := range p {
		p[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(segment)
	}
	return p, nil
}

// String returns the pointer as text, escaped.
func (p pointer) String() string {
	var out strings.Builder
	for _, segment := range p {
		out.WriteByte('/')
		out.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(segment))
	}
	return out.String()
}

// below returns the pointer to a child.
func (p pointer) below(segment string) pointer {
	return append(slices.Clip(p), segment)
}

// remove takes what p leads to out of a tree. It reports whether it was there.
func (p pointer) remove(tree map[string]any) bool {
	_, removed := removeAt(tree, p)
	return removed
}

// removeAt returns the node without what path leads to: a shorter array is another
// value.
func removeAt(node any, path pointer) (any, bool) {
	switch n := node.(type) {
	case map[string]any:
		key, ok := keyOf(n, path[0])
		if !ok {
			return n, false
		}
		if len(path) == 1 {
			delete(n, key)
			return n, true
		}
		child, removed := removeAt(n[key], path[1:])
		n[key] = child
		return n, removed
	case []any:
		i, ok := indexOf(n, path[0])
		if !ok {
			return n, false
		}
		if len(path) == 1 {
			return slices.Delete(n, i, i+1), true
		}
		child, removed := removeAt(n[i], path[1:])
		n[i] = child
		return n, removed
	}
	return node, false
}

// upsert sets what p leads to, with objects on the way where there is nothing. It
// reports whether it could: an array does not grow, and a text has nothing below it.
func (p pointer) upsert(tree map[string]any, value any) bool {
	var node any = tree
	for i, segment := range p {
		last := i == len(p)-1
		switch n := node.(type) {
		case map[string]any:
			key, ok := keyOf(n, segment)
			if last {
				n[key] = value
				return true
			}
			if !ok {
				n[key] = map[string]any{}
			}
			node = n[key]
		case []any:
			index, ok := indexOf(n, segment)
			if !ok {
				return false
			}
			if last {
				n[index] = value
				return true
			}
			node = n[index]
		default:
			return false
		}
	}
	return false
}

// keyOf returns the key that a segment names. A mask that finds nothing is a leak: so
// one that is percent-encoded, which OPA takes too, names the decoded key.
func keyOf(object map[string]any, segment string) (string, bool) {
	if _, ok := object[segment]; ok {
		return segment, true
	}
	if decoded, err := url.PathUnescape(segment); err == nil {
		if _, ok := object[decoded]; ok {
			return decoded, true
		}
	}
	return segment, false
}

func indexOf(array []any, segment string) (int, bool) {
	i, err := strconv.Atoi(segment)
	return i, err == nil && i >= 0 && i < len(array)
}

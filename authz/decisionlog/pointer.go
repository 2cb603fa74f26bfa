package decisionlog

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// pointer is a JSON pointer (RFC 6901), one key or index a segment. The segments are
// unescaped: "/a~1b/0" is ["a/b", "0"].
type pointer []string

// The escapes of RFC 6901.
var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

var errPointer = errors.New("is no JSON pointer: it has to begin with a slash")

// parsePointer accepts no empty pointer, which would be the event as a whole.
func parsePointer(text string) (pointer, error) {
	below, ok := strings.CutPrefix(text, "/")
	if !ok {
		return nil, errPointer
	}
	p := pointer(strings.Split(below, "/"))
	for i, segment := range p {
		p[i] = unescaper.Replace(segment)
	}
	return p, nil
}

// String returns the pointer as text, escaped.
func (p pointer) String() string {
	var out strings.Builder
	for _, segment := range p {
		out.WriteByte('/')
		out.WriteString(escaper.Replace(segment))
	}
	return out.String()
}

// below returns the pointer to a child. It copies, since siblings grow from the same
// parent.
func (p pointer) below(segment string) pointer {
	return append(slices.Clip(p), segment)
}

// removed stands in the place of an array's element that was taken out, until compact:
// so an index means the same to each of several masks.
type removed struct{}

// remove takes what p leads to out of a tree, which has to be compacted when all is
// removed. It reports whether it was there.
func (p pointer) remove(tree map[string]any) bool {
	holder, ok := p.holder(tree, false)
	if !ok {
		return false
	}
	last := p[len(p)-1]
	switch n := holder.(type) {
	case map[string]any:
		key, found := keyOf(n, last)
		delete(n, key)
		return found
	case []any:
		i, found := indexOf(n, last)
		if found {
			n[i] = removed{}
		}
		return found
	}
	return false
}

// upsert sets what p leads to, with objects on the way where there is nothing. It
// reports whether it could: an array does not grow, and a text has nothing below it.
func (p pointer) upsert(tree map[string]any, value any) bool {
	holder, ok := p.holder(tree, true)
	if !ok {
		return false
	}
	last := p[len(p)-1]
	switch n := holder.(type) {
	case map[string]any:
		key, _ := keyOf(n, last)
		n[key] = value
		return true
	case []any:
		i, found := indexOf(n, last)
		if found {
			n[i] = value
		}
		return found
	}
	return false
}

// holder returns the object or array that has the last segment of p, or might have it.
// With create it makes objects on the way.
func (p pointer) holder(tree map[string]any, create bool) (node any, ok bool) {
	node = tree
	for _, segment := range p[:len(p)-1] {
		switch n := node.(type) {
		case map[string]any:
			key, found := keyOf(n, segment)
			if !found && !create {
				return nil, false
			}
			if !found {
				n[key] = map[string]any{}
			}
			node = n[key]
		case []any:
			i, found := indexOf(n, segment)
			if !found {
				return nil, false
			}
			node = n[i]
		default:
			return nil, false
		}
	}
	return node, true
}

// compact returns a value without the elements that were removed. It changes arrays in
// place and is called once, after the last mask.
func compact(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, element := range v {
			v[key] = compact(element)
		}
	case []any:
		v = slices.DeleteFunc(v, func(element any) bool { return element == any(removed{}) })
		for i, element := range v {
			v[i] = compact(element)
		}
		return v
	}
	return value
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

// indexOf does not find a removed element: to remove it twice changes nothing.
func indexOf(array []any, segment string) (int, bool) {
	i, err := strconv.Atoi(segment)
	return i, err == nil && i >= 0 && i < len(array) && array[i] != any(removed{})
}

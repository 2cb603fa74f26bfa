package input

import (
	"encoding/binary"
	"net/url"
	"strings"

	"understudy/authz/extauthz/body"
	"understudy/rego"
)

// pathPart is input.parsed_path. A policy that looks at some segments, by their places,
// does not depend on the others, so many paths share one cached decision:
//
//	parsed_path[0] == "api"; parsed_path[2] == "orders"     # /api/v1/orders/17 and /api/v1/orders/18 have one key
//	["api", _, "orders", id] = parsed_path                  # so have they, if id is not used
type pathPart struct{}

// plan adds the segments that are read, and their number if that is read.
func (pathPart) plan(p *plan, reads *rego.Reads) {
	elements, length, ok := reads.Elements()
	p.whole = !ok || !length && len(elements) == 0
	if p.whole {
		return
	}
	if length {
		p.below = append(p.below, &plan{part: segmentCount{}})
	}
	for _, e := range elements {
		p.below = append(p.below, newPlan("", segmentText(e.Index), e.Reads))
	}
}

func (pathPart) key(c *Check, b []byte, p *plan) ([]byte, bool) {
	if p.whole {
		return appendText(b, c.path()), false
	}
	return b, true
}

// value returns the segments that are read. In their array, those between them are empty and
// those after them are missing; if their number is read, it has all segments.
func (pathPart) value(c *Check, p *plan) (rego.Value, error) {
	if p.whole || p.below[0].part == (segmentCount{}) {
		return rego.Strings(strings.Split(segments(c), "/")), nil
	}
	var out []string
	for _, child := range p.below {
		segment, ok := child.text.text(c)
		if !ok {
			break
		}
		for len(out) < int(child.text.(segmentText)) {
			out = append(out, "")
		}
		out = append(out, segment)
	}
	return rego.Strings(out), nil
}

// segments returns the path as far as its segments are what is between its slashes: it is
// decoded first, so that an encoded slash separates too. That it decodes was found out
// before. The path is not normalised: that is Envoy's part. It is never given to url.Parse,
// which reads //admin/x as the host admin and would hide it from the policy.
func segments(c *Check) string {
	path := c.path()
	if strings.Contains(path, "%") {
		path, _ = decodePath(path)
	}
	return strings.TrimLeft(path, "/")
}

// segmentText is the segment at a place.
type segmentText int

func (s segmentText) text(c *Check) (string, bool) {
	path := segments(c)
	for range s {
		_, rest, more := strings.Cut(path, "/")
		if !more {
			return "", false
		}
		path = rest
	}
	segment, _, _ := strings.Cut(path, "/")
	return segment, true
}

// segmentCount is the number of segments, in the key alone.
type segmentCount struct{}

func (segmentCount) key(c *Check, b []byte, _ *plan) ([]byte, bool) {
	return binary.AppendUvarint(b, uint64(strings.Count(segments(c), "/"))), false
}

func (segmentCount) value(*Check, *plan) (rego.Value, error) { return rego.Value{}, nil }

// queryPart is input.parsed_query.
type queryPart struct{}

func (queryPart) key(c *Check, b []byte, _ *plan) ([]byte, bool) {
	return appendText(b, c.query()), false
}

func (queryPart) value(c *Check, _ *plan) (rego.Value, error) {
	values, err := parseQuery(c.query())
	if err != nil {
		return rego.Value{}, err
	}
	return rego.ValueOf(values)
}

// decodePath replaces the escapes of a path.
func decodePath(path string) (string, error) {
	path, err := url.PathUnescape(path)
	if err != nil {
		return "", badRequest("The path has a percent sign that begins no escape.")
	}
	return path, nil
}

// parseQuery returns input.parsed_query :: name → its values in order. What one
// server would read in another way than this, such as a semicolon, is refused.
func parseQuery(query string) (map[string]any, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, badRequest("The query does not parse: it has a bad escape or a semicolon.")
	}
	return body.Values(values), nil
}

// parses returns why the path or the query does not parse, nil if both do.
func (c *Check) parses() error {
	if _, err := decodePath(c.path()); err != nil {
		return err
	}
	_, err := parseQuery(c.query())
	return err
}

// maxParameters is far below the number of parameters that url.ParseQuery refuses.
const maxParameters = 1000

// usualTarget reports whether the path and the query parse, without parsing them: mostly it
// allocates nothing. It may say no of what does; the full decode then finds out.
func (c *Check) usualTarget() bool {
	path, query, _ := strings.Cut(c.target(), "?")
	_, badPath := decodePath(path)
	_, badQuery := decodePath(query) // has the same escapes
	return badPath == nil && badQuery == nil && !strings.Contains(query, ";") && strings.Count(query, "&") < maxParameters
}

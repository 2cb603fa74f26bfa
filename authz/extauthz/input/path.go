package input

import (
	"net/url"
	"slices"
	"strings"

	"understudy/authz/extauthz/body"
	"understudy/rego"
)

// pathPart is input.parsed_path. A policy that looks at some segments, by their places,
// does not depend on the others, so many paths share one cached decision:
//
//	parsed_path[0] == "api"; parsed_path[2] == "orders"     # /api/v1/orders/17 and /api/v1/orders/18 have one key
type pathPart struct{}

func (pathPart) plan(reads *rego.Reads) []*plan {
	if places, ok := reads.Indexes(); ok && len(places) > 0 {
		slices.Sort(places)
		return []*plan{{part: segmentsPart(places)}}
	}
	return []*plan{{part: wholePath{}}}
}

func (pathPart) key(_ *Check, b []byte) ([]byte, bool) { return b, true }

func (pathPart) value(c *Check, below []*plan) (rego.Value, error) { return below[0].value(c) }

// segmentsPart are the segments at some places, sorted. In their array, those between
// them are empty and those after them are missing.
type segmentsPart []int

func (segmentsPart) plan(*rego.Reads) []*plan { return nil }

func (s segmentsPart) key(c *Check, b []byte) ([]byte, bool) {
	for _, segment := range s.of(c) {
		b = appendText(append(b, 1), segment)
	}
	return append(b, 0), false
}

func (s segmentsPart) value(c *Check, _ []*plan) (rego.Value, error) {
	var out []string
	for i, segment := range s.of(c) {
		for len(out) < s[i] {
			out = append(out, "")
		}
		out = append(out, segment)
	}
	return rego.Strings(out), nil
}

// of returns the segments at the places, as far as the path has them.
func (s segmentsPart) of(c *Check) []string {
	path := c.path()
	if strings.Contains(path, "%") {
		// That it parses was found out before.
		segments, _ := parsePath(path)
		path = strings.Join(segments, "/")
	}
	var out []string
	place := 0
	for segment := range strings.SplitSeq(strings.TrimLeft(path, "/"), "/") {
		if len(out) == len(s) {
			break
		}
		if place == s[len(out)] {
			out = append(out, segment)
		}
		place++
	}
	return out
}

// wholePath are all segments.
type wholePath struct{}

func (wholePath) plan(*rego.Reads) []*plan { return nil }

func (wholePath) key(c *Check, b []byte) ([]byte, bool) { return appendText(b, c.path()), false }

func (wholePath) value(c *Check, _ []*plan) (rego.Value, error) {
	segments, err := parsePath(c.path())
	if err != nil {
		return rego.Value{}, err
	}
	return rego.Strings(segments), nil
}

// queryPart is input.parsed_query.
type queryPart struct{}

func (queryPart) plan(*rego.Reads) []*plan { return nil }

func (queryPart) key(c *Check, b []byte) ([]byte, bool) { return appendText(b, c.query()), false }

func (queryPart) value(c *Check, _ []*plan) (rego.Value, error) {
	values, err := parseQuery(c.query())
	if err != nil {
		return rego.Value{}, err
	}
	return rego.ValueOf(values)
}

// parsePath returns input.parsed_path: the segments of the path, decoded first,
// so that an encoded slash separates too. The path is not normalised: that is
// Envoy's part. It is never given to url.Parse, which reads //admin/x as the
// host admin and would hide it from the policy.
func parsePath(path string) ([]string, error) {
	path, err := decodePath(path)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimLeft(path, "/"), "/"), nil
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

// maxParameters is far below the number of parameters that url.ParseQuery refuses.
const maxParameters = 1000

// validForm reports whether a query parses, without parsing it: it allocates nothing.
// It may say no of one that does; the full decode then finds out.
func validForm(form string) bool {
	return !strings.Contains(form, ";") && validEscapes(form) && strings.Count(form, "&") < maxParameters
}

// validEscapes reports whether every percent sign begins an escape.
func validEscapes(s string) bool {
	if !strings.Contains(s, "%") {
		return true
	}
	_, err := url.PathUnescape(s)
	return err == nil
}

package input

import (
	"net/url"
	"strings"

	"understudy/authz/extauthz/body"
	"understudy/rego"
)

// pathPart is input.parsed_path.
type pathPart struct{}

func (pathPart) value(c *Check, _ []string) (rego.Value, error) {
	return rego.Strings(strings.Split(segments(c), "/")), nil
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

func (s segmentText) value(c *Check, _ []string) (rego.Value, error) {
	path := segments(c)
	for range s {
		_, rest, more := strings.Cut(path, "/")
		if !more {
			return rego.Value{}, nil
		}
		path = rest
	}
	segment, _, _ := strings.Cut(path, "/")
	return rego.String(segment), nil
}

// queryPart is input.parsed_query.
type queryPart struct{}

func (queryPart) seal(c *Check, b []byte) []byte { return appendText(b, c.query()) }

func (queryPart) value(c *Check, _ []string) (rego.Value, error) {
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

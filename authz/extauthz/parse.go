package extauthz

import (
	"net/url"
	"strings"
)

// parsePath returns input.parsed_path: the segments of the path, decoded first,
// so that an encoded slash separates too. The path is not normalised: that is
// Envoy's part. It is never given to url.Parse, which reads //admin/x as the
// host admin and would hide it from the policy.
func parsePath(target string) ([]string, error) {
	path, _, _ := strings.Cut(target, "?")
	path, err := url.PathUnescape(path)
	if err != nil {
		return nil, badRequest("The path has a percent sign that begins no escape.")
	}
	return strings.Split(strings.TrimLeft(path, "/"), "/"), nil
}

// parseQuery returns input.parsed_query :: name → its values in order. What one
// server would read in another way than this, such as a semicolon, is refused.
func parseQuery(target string) (map[string]any, error) {
	_, query, _ := strings.Cut(target, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, badRequest("The query does not parse: it has a bad escape or a semicolon.")
	}
	return valuesOf(values), nil
}

func valuesOf(values url.Values) map[string]any {
	out := make(map[string]any, len(values))
	for name, v := range values {
		out[name] = v
	}
	return out
}

package rest

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"understudy/admin/apierror"
)

// A proxy in front of the API may authorize calls by their path and query. So there is
// one way to write a target: whatever a proxy and this server could read differently is
// refused, for every API on the port.

// checkTarget returns INVALID_ARGUMENT for a path or a query that others may read
// differently: RFC 3986 lets a proxy merge dot segments, many decode %2F and merge
// slashes, and parsers disagree about what a broken query says.
func checkTarget(u *url.URL) error {
	path := u.EscapedPath()
	switch {
	case strings.Contains(path, "//"):
		return invalidPath("The path has an empty segment (//). Write one slash.")
	case strings.Contains(strings.ToLower(path), "%2f"):
		return invalidPath("The path has an escaped slash (%2F). No ID has a slash: write / between segments, and nothing else.")
	case hasDotSegment(path):
		return invalidPath("The path has a segment . or .., plain or escaped. Write the path without it.")
	}
	query, err := url.QueryUnescape(u.RawQuery)
	if err == nil && !utf8.ValidString(query) {
		// No message of protocol buffers could hold it, that of the error neither.
		return apierror.Invalid(apierror.ReasonInvalidParameter, "query",
			"The query is not UTF-8. Escape the bytes of the text in UTF-8: é is %C3%A9.")
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return apierror.Invalid(apierror.ReasonInvalidParameter, "query",
			"The query does not parse: a parameter is name=value, parameters are joined by &, and %, ; and & in a value are escaped as %25, %3B and %26.")
	}
	return nil
}

// hasDotSegment reports whether a segment of an escaped path is . or .. (RFC 3986,
// section 3.3). An escape that does not decode is none.
func hasDotSegment(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if plain, err := url.PathUnescape(segment); err == nil && (plain == "." || plain == "..") {
			return true
		}
	}
	return false
}

// invalidPath is the error of a path that has more than one reading.
func invalidPath(description string) error { return apierror.InvalidName("path", description) }

// Check is what every API on the server's port asks of a request before anything
// else: that no page of another site sends it (PERMISSION_DENIED), and that its target can
// be read in one way only (INVALID_ARGUMENT).
func (g Guard) Check(r *http.Request) error {
	if err := g.checkCaller(r); err != nil {
		return err
	}
	return checkTarget(r.URL)
}

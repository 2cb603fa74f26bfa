package httpauthz

import (
	"regexp"
	"strings"
)

// escapedSeparator is a slash or backslash behind a percent sign, or the end of a string
// in C. Some servers decode it before they split a path, others afterwards.
var escapedSeparator = regexp.MustCompile(`%(2[fF]|5[cC]|00)`)

// escapedDot is a dot behind a percent sign, which means the same as a dot (RFC 3986,
// 2.3).
var escapedDot = regexp.MustCompile(`%2[eE]`)

// ambiguousPath reports whether the path of a request target may be another one to the
// upstream than to a policy: it has dot segments in any spelling, empty segments,
// escaped separators, backslashes or a fragment. The policy would decide about
// /public/../internal, and the upstream answer /internal.
//
// Envoy normalizes such paths before it asks, as envoy.yaml configures it; proxies that
// ask over HTTP send what they got.
func ambiguousPath(target string) bool {
	path, _, _ := strings.Cut(target, "?")
	if strings.ContainsAny(path, `\#`) || strings.Contains(path, "//") || escapedSeparator.MatchString(path) {
		return true
	}
	for segment := range strings.SplitSeq(escapedDot.ReplaceAllString(path, "."), "/") {
		// Servlet containers drop what follows a semicolon before they look for dots.
		name, _, _ := strings.Cut(segment, ";")
		if name == "." || name == ".." {
			return true
		}
	}
	return false
}

package body

import (
	"slices"
	"strings"
)

// kind is a way in which bodies are read. The zero value is a body that no policy can
// look into.
type kind uint8

const (
	kindUnread kind = iota
	kindJSON
	kindGRPC
	kindForm
	kindMultipart
)

// mediaTypes are the media types that are read, in the order in which they are looked for.
var mediaTypes = []struct {
	name string
	kind kind
}{
	{"application/json", kindJSON},
	{"application/grpc", kindGRPC},
	{"application/x-www-form-urlencoded", kindForm},
	{"multipart/form-data", kindMultipart},
}

var errContentTypes = badRequest("The header content-type names more than one type, so that the upstream may read another body than the policy. Send one.")

// kindOf returns how a body of a content type is read. A media type is looked for anywhere
// in the header, as in opa-envoy-plugin, but in any case (RFC 9110, 8.3.1).
//
// A request has one content type (RFC 9110, 8.3). Envoy joins the values of several header
// lines by commas and passes that on; of such a list some upstreams take the first, others
// the last, and some neither. So a list of different types is refused, or the policy could
// read another body than the upstream.
func kindOf(contentType string) (kind, error) {
	lower := strings.ToLower(contentType)
	if strings.Contains(lower, ",") {
		types := splitList(lower)
		differs := func(t string) bool { return t != types[0] }
		if slices.ContainsFunc(types, differs) {
			return kindUnread, errContentTypes
		}
	}
	for _, t := range mediaTypes {
		if strings.Contains(lower, t.name) {
			return t.kind, nil
		}
	}
	return kindUnread, nil
}

// splitList splits the value of a header at its commas, but not at those in quoted strings
// (RFC 9110, 5.6.1).
func splitList(value string) []string {
	var out []string
	quoted, escaped, start := false, false, 0
	for i := range len(value) {
		switch c := value[i]; {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			out, start = append(out, strings.TrimSpace(value[start:i])), i+1
		}
	}
	return append(out, strings.TrimSpace(value[start:]))
}

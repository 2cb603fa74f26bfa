package authz

import (
	"unicode/utf8"

	"understudy/authz/diagnostics"
)

// maxRequestID bounds the ID of a request that others made, in characters.
const maxRequestID = 128

// ExternalID returns the ID under which others know the request: its x-request-id. It is
// what a client may have sent, so it is cleaned, for logs, and bounded; empty if there is
// none.
func (r *Request) ExternalID() string {
	if r.RequestID == nil {
		return ""
	}
	id := r.RequestID()
	if len(id) > maxRequestID*utf8.UTFMax {
		id = id[:maxRequestID*utf8.UTFMax]
	}
	n := 0
	for i := range id {
		if n == maxRequestID {
			id = id[:i]
			break
		}
		n++
	}
	return diagnostics.Clean(id)
}

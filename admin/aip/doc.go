// Package aip reads the small languages of the AIPs: filters (AIP-160), orders
// (AIP-132), page tokens (AIP-158) and update masks (AIP-134).
//
// Each is parsed against a message's descriptor, so that an unknown field or a
// wrong type is found before anything is read, and then applied to messages. The
// package knows no resource of ours. Its errors are [Error]s: texts for the caller
// that say what is wrong and how to fix it.
//
// All of it is bounded, since anyone who may list can send it: a filter has 8 KiB and nests 50
// deep, a page has 1,000 items, and an error repeats 200 bytes of what was sent.
//
// The parsers are our own. That of go.einride.tech/aip has the right precedence,
// but knows neither backticks for map keys nor a bound on depth, checks no enum
// names, and its filters are not evaluated in three-valued logic, without which a
// NOT matches resources that lack the field; its update masks reject `*` together
// with the snake_case paths of JSON clients.
package aip

import (
	"fmt"
	"strings"
)

// Error is a mistake in a caller's text.
//
// The API answers it as INVALID_ARGUMENT with the field at fault (AIP-193); which field of the
// request has the text is for the caller to say.
type Error struct {
	// Path is the field or path at fault, if there is one.
	Path string
	// Immutable says that the mistake is to change a field that cannot change.
	Immutable bool
	text      string
}

func (e *Error) Error() string { return e.text }

// errorf makes an [Error]. Texts among the arguments are cut, since they come from a request.
func errorf(format string, args ...any) *Error {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = Shown(text)
		}
	}
	return &Error{text: fmt.Sprintf(format, args...)}
}

// maxShown bounds what an error repeats of a request, in bytes.
const maxShown = 200

// Shown is a text of the caller's as an error repeats it: the beginning, if it is long.
// What a caller sends may have megabytes, and an error has to fit into 8 KiB of metadata,
// more than which many gRPC clients do not take.
func Shown(text string) string { return Cut(text, maxShown) }

// Cut is the beginning of a text, of at most so many bytes, with a mark of what is left
// out.
func Cut(text string, size int) string {
	if len(text) <= size {
		return text
	}
	// The cut may go through a character of several bytes, which is then left out.
	return strings.ToValidUTF8(text[:size], "") + "…"
}

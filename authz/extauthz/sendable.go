package extauthz

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"understudy/authz"
)

// unsendable is the error of a decision that cannot be sent to Envoy: a sentence
// for the decision's reason.
type unsendable string

func (e unsendable) Error() string { return string(e) }

const (
	errHeader  = unsendable("The decision has a header that cannot be sent: its name or value is not valid.")
	errFraming = unsendable("The decision has a header that frames a message or belongs to its connection.")
	errQuery   = unsendable("The decision has a query parameter that cannot be sent: its name is empty or not UTF-8.")
)

// sendable returns why a decision cannot be sent to Envoy, or nil. Package authz
// refuses such results of policies where it reads them; this is the last gate, for
// a header with a line break would be a header of the attacker's choice, and text
// that is not UTF-8 would be a gRPC error, which Envoy may turn into an allow.
func sendable(d authz.Decision) error {
	if d.Plain {
		return nil
	}
	if d.Effect == authz.Deny {
		// Envoy can rewrite the request line by pseudo-headers, but not a status line.
		return sendableHeaders(d.Headers, false)
	}
	if err := sendableHeaders(d.Headers, true); err != nil {
		return err
	}
	if err := sendableHeaders(d.ResponseHeaders, false); err != nil {
		return err
	}
	for _, f := range slices.Concat(d.Headers, d.ResponseHeaders) {
		if authz.FramingHeader(f.Name) {
			return errFraming
		}
	}
	for _, name := range d.RemoveHeaders {
		if !validName(name, true) {
			return errHeader
		}
	}
	return sendableQuery(d)
}

func sendableQuery(d authz.Decision) error {
	for _, name := range d.RemoveQuery {
		if name == "" || !utf8.ValidString(name) {
			return errQuery
		}
	}
	for _, f := range d.SetQuery {
		if f.Name == "" {
			return errQuery
		}
	}
	return nil
}

// sendableHeaders allows pseudo-headers where Envoy rewrites the request line by them:
// in an allow.
func sendableHeaders(fields []authz.Field, pseudo bool) error {
	for _, f := range fields {
		if !validName(f.Name, pseudo) || !httpguts.ValidHeaderFieldValue(f.Value) || !utf8.ValidString(f.Value) {
			return errHeader
		}
	}
	return nil
}

// validName reports whether a name is that of a header, or of a pseudo-header
// where they are allowed.
func validName(name string, pseudo bool) bool {
	if pseudo {
		name = strings.TrimPrefix(name, ":")
	}
	return httpguts.ValidHeaderFieldName(name)
}

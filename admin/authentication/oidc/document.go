package oidc

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	strictjson "github.com/go-jose/go-jose/v4/json"
)

// document has the claims of a token by their exact names, each of which is there once
// (RFC 7519, section 4).
//
// go-oidc reads them by encoding/json, which takes a name in any case, and the last one of
// several. Where people add claims of their own to their tokens, one of them could be read as
// the subject. So everything is decided by the document, and go-oidc has to have read the same.
type document map[string]any

// registered are the claims that go-oidc reads, or that are read here whatever is configured.
var registered = []string{
	"iss", "sub", "aud", "exp", "nbf", "iat", "jti", // RFC 7519, section 4.1
	"nonce", "at_hash", "email_verified", "_claim_names", "_claim_sources", // OpenID Connect Core
	"events", // RFC 8417
}

// strictly reads claims: one object in UTF-8 in which, at any depth, no name stands twice, and
// which has no lookalike of some names.
func strictly(text []byte, names []string) (document, *Refusal) {
	var d document
	if err := strictjson.Unmarshal(text, &d); err != nil || d == nil || !utf8.Valid(text) {
		return nil, ambiguous
	}
	if name := d.lookalike(names); name != "" {
		return nil, lookalike(name)
	}
	return d, nil
}

// peekIssuer returns the issuer that a token names whose signature was not verified: to refuse
// it or to find who verifies it, never to take it.
func peekIssuer(token string) (issuer string, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", false
	}
	var claims map[string]json.RawMessage
	if json.Unmarshal(payload, &claims) != nil {
		return "", false
	}
	_ = json.Unmarshal(claims["iss"], &issuer) // what is no text is no issuer's
	return issuer, true
}

// lookalike returns the first of some names that a claim has in other letters, by any case that
// Unicode folds; empty if there is none.
func (d document) lookalike(names []string) string {
	for claim := range d {
		i := slices.IndexFunc(names, func(name string) bool { return claim != name && strings.EqualFold(claim, name) })
		if i >= 0 {
			return names[i]
		}
	}
	return ""
}

// text is a claim that is a text; empty if it is anything else.
func (d document) text(name string) string {
	text, _ := d[name].(string)
	return text
}

// texts is a claim that is a text or a list of texts, none if it is not there; null in a list
// is an empty one. It reports false if it is anything else.
func (d document) texts(name string) (texts []string, ok bool) {
	switch value := d[name].(type) {
	case nil:
		return nil, true
	case string:
		return []string{value}, true
	case []any:
		for _, element := range value {
			text, isText := element.(string)
			if !isText && element != nil {
				return nil, false
			}
			texts = append(texts, text)
		}
		return texts, true
	}
	return nil, false
}

// maxTime is the end of the year 9999, beyond which RFC 3339 writes no time.
const maxTime = 253402300799

// time is a claim that is a NumericDate (RFC 7519, section 2), in whole seconds. It reports
// false if it is none, or not there.
func (d document) time(name string) (t time.Time, ok bool) {
	seconds, ok := d[name].(float64)
	if !ok || seconds < 0 || seconds > maxTime {
		return t, false
	}
	return time.Unix(int64(seconds), 0), true
}

// agrees reports whether go-oidc has read the same.
func (d document) agrees(token *oidc.IDToken) bool {
	audience, _ := d.texts("aud")
	expires, _ := d.time("exp")
	return d.text("iss") == token.Issuer && d.text("sub") == token.Subject && d.text("nonce") == token.Nonce &&
		slices.Equal(audience, token.Audience) && expires.Equal(token.Expiry)
}

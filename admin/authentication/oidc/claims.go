package oidc

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Claims are what a good token says.
type Claims struct {
	// Issuer and Subject are the names of the principal.
	Issuer, Subject string
	Groups          []string
	// Nonce is that of the login that made the token; empty if it had none.
	Nonce string
	// Expires is when the token ends.
	Expires time.Time
}

// Member is the principal's name in bindings.
func (c Claims) Member() string { return "oidc:" + c.Issuer + "#" + c.Subject }

// unverified are the claims of a token that decide before its signature is verified: to
// refuse it, never to take it.
type unverified struct {
	Issuer string `json:"iss"`
}

// peek reads the issuer of a token whose signature was not verified.
func peek(token string) (u unverified, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return u, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	return u, err == nil && json.Unmarshal(payload, &u) == nil
}

// further are claims that go-oidc does not look at, or not as strictly.
type further struct {
	NotBefore *float64        `json:"nbf"`
	Events    json.RawMessage `json:"events"`
}

// tooEarly reports whether a token is not good yet.
func (f further) tooEarly(now time.Time) bool {
	return f.NotBefore != nil && float64(now.Add(leeway).Unix()) < *f.NotBefore
}

// claimsOf reads the claims of a token that was verified. The refusal is nil if they are
// those of a principal.
func claimsOf(token *oidc.IDToken, issuer, groupsClaim string) (Claims, *Refusal) {
	if token.Subject == "" || len(token.Subject) > 255 || strings.ContainsFunc(token.Subject, unprintable) {
		return Claims{}, badSubject
	}
	groups, ok := groupsOf(token, groupsClaim)
	if !ok {
		return Claims{}, &Refusal{"malformed", "The claim '" + groupsClaim + "' of the token is neither a text nor a list of texts."}
	}
	return Claims{Issuer: issuer, Subject: token.Subject, Groups: groups, Nonce: token.Nonce, Expires: token.Expiry}, nil
}

// groupsOf returns the texts of a claim, none if it is not there. Groups that nobody could
// write in a binding are left out.
func groupsOf(token *oidc.IDToken, claim string) (groups []string, ok bool) {
	var all map[string]json.RawMessage
	if claim == "" || token.Claims(&all) != nil {
		return nil, claim == ""
	}
	raw, found := all[claim]
	if !found || string(raw) == "null" {
		return nil, true
	}
	var list []string
	var one string
	switch {
	case json.Unmarshal(raw, &list) == nil:
	case json.Unmarshal(raw, &one) == nil:
		list = []string{one}
	default:
		return nil, false
	}
	for _, group := range list {
		if group != "" && len(group) <= maxGroup && !strings.ContainsFunc(group, unprintable) {
			groups = append(groups, group)
		}
	}
	return groups, true
}

// maxGroup bounds the name of a group, in bytes.
const maxGroup = 256

// unprintable reports whether no name has the character.
func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }

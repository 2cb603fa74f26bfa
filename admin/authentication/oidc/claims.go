package oidc

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Claims are what a good token says.
type Claims struct {
	// Issuer and Subject are the names of the principal.
	Issuer, Subject string
	// Groups are as the issuer names them.
	Groups []string
	// Display is what its bearer is called, as the issuer says it: text for people, which many may
	// share and some may choose. Empty if there is none.
	Display string
	// Nonce is that of the login that made the token; empty if it had none.
	Nonce string
	// Expires is when the token ends.
	Expires time.Time
}

// Member is the principal's name in bindings.
func (c Claims) Member() string { return "oidc:" + c.Issuer + "#" + c.Subject }

// claims checks what go-oidc leaves to its caller, and returns what the token says.
func (i *Issuer) claims(verified *oidc.IDToken, d document) (Claims, error) {
	expires, ends := d.time("exp")
	audiences, _ := d.texts("aud")
	groups, grouped := d.texts(i.config.GroupsClaim)
	_, event := d["events"]
	subject := d.text("sub")
	switch {
	case d.tooEarly(time.Now()):
		return Claims{}, early
	case event:
		return Claims{}, securityEvent
	case !slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(i.config.Audiences, a) }):
		return Claims{}, i.otherAudience()
	case subject == "" || len(subject) > maxSubject || strings.ContainsFunc(subject, unprintable):
		return Claims{}, badSubject
	case !grouped:
		return Claims{}, badGroups(i.config.GroupsClaim)
	case !ends || !d.agrees(verified):
		return Claims{}, badClaims
	}
	return Claims{
		Issuer: i.config.URL, Subject: subject, Groups: slices.DeleteFunc(groups, unfitGroup), Display: d.display(i.config.DisplayClaims),
		Nonce: d.text("nonce"), Expires: expires,
	}, nil
}

// display is the first of some claims that has a text. An e-mail address that the issuer has not
// verified may be anybody's, and is passed over (OpenID Connect Core, section 5.1).
func (d document) display(claims []string) string {
	for _, name := range claims {
		verified := d["email_verified"] == true || d["email_verified"] == "true" // some issuers write a text
		if text := d.text(name); text != "" && (name != "email" || verified) {
			return text
		}
	}
	return ""
}

// tooEarly reports whether a token is not good yet, or does not say when.
func (d document) tooEarly(now time.Time) bool {
	begin, ok := d.time("nbf")
	return d["nbf"] != nil && (!ok || now.Add(leeway).Before(begin))
}

const (
	// maxSubject bounds a subject, in bytes (OpenID Connect Core, section 2).
	maxSubject = 255
	// maxGroup bounds the name of a group, in bytes.
	maxGroup = 256
)

// unfitGroup reports whether nobody could write a group in a binding.
func unfitGroup(group string) bool {
	return group == "" || len(group) > maxGroup || strings.ContainsFunc(group, unprintable)
}

// unprintable reports whether no name has the character.
func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }

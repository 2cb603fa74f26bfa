package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// MaxMember is the size of the largest member of a binding, in bytes.
const MaxMember = 512

// groupPrefix begins the member that stands for all principals of a group.
const groupPrefix = "group:"

// members are the forms of a member, as errors show them.
const members = "spiffe://DOMAIN/PATH, cert:NAME, oidc:ISSUER#SUBJECT, group:ISSUER#NAME, token:NAME, chef:NAME or " + AllAuthenticated

// CheckMember returns an error that says which rule a member of a binding breaks and how to
// fix it; nil if it is one. It quotes nothing.
func CheckMember(member string) error {
	switch {
	case member == AllAuthenticated:
		return nil
	case member == "allUsers" || member == "allAuthenticatedUsers":
		return errors.New("nobody calls without credentials: everybody who has some is " + AllAuthenticated)
	case len(member) > MaxMember:
		return fmt.Errorf("it has more than %d bytes", MaxMember)
	case !utf8.ValidString(member) || strings.ContainsFunc(member, unprintable):
		return errors.New("it has a character that cannot be printed: write the name as its issuer does")
	}
	kind, _, _ := strings.Cut(member, ":")
	for _, f := range forms {
		if f.kind == kind {
			return f.check(member)
		}
	}
	return errors.New("it is one of " + members)
}

// form is a kind of members: those that begin with the kind and a colon.
type form struct {
	kind string
	// has reports whether a member has all parts that one of the kind has.
	has func(member string) bool
	// rule says which parts these are.
	rule string
}

// forms are all kinds.
var forms = []form{
	{"spiffe", isSPIFFE, "a SPIFFE ID is spiffe://DOMAIN/PATH, without a user, port, query, fragment or escape; " +
		"the domain has a-z 0-9 . - _, and segments of the path, none of which is . or .., have letters, digits and . - _ in them"},
	{"oidc", ofIssuer, "it is oidc:ISSUER#SUBJECT, with the issuer's URL and the claim sub"},
	{"group", ofIssuer, "it is group:ISSUER#NAME, with the issuer's URL, for a group belongs to its issuer"},
	{"cert", named, "the name is missing: it is cert:NAME"},
	{"token", named, "the name is missing: it is token:NAME"},
	{"chef", named, "the name is missing: it is chef:NAME"},
}

// check returns the rule as an error if a member breaks it.
func (f form) check(member string) error {
	if !f.has(member) {
		return errors.New(f.rule)
	}
	return nil
}

// isSPIFFE reports whether a member is the SPIFFE ID of a workload.
func isSPIFFE(member string) bool {
	id, err := spiffeid.FromString(member)
	return err == nil && id.Path() != ""
}

// ofIssuer reports whether a member names an issuer and what belongs to it.
func ofIssuer(member string) bool {
	_, name, _ := strings.Cut(member, ":")
	issuer, own, _ := strings.Cut(name, "#")
	return issuer != "" && own != ""
}

// named reports whether a member has a name behind its kind.
func named(member string) bool {
	_, name, _ := strings.Cut(member, ":")
	return name != ""
}

// unprintable reports whether no name of a principal has the character. Blanks inside are
// those of a certificate's common name.
func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// Is reports whether the principal is who a member of a binding names. Nobody in
// particular is nobody's member.
func (p Principal) Is(member string) bool {
	if !p.Known() {
		return false
	}
	if group, ok := strings.CutPrefix(member, groupPrefix); ok {
		return group != "" && slices.Contains(p.Groups, group)
	}
	return member == AllAuthenticated || member == p.Member
}

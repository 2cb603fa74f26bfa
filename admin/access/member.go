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
	kind, name, _ := strings.Cut(member, ":")
	switch kind {
	case "spiffe":
		if id, err := spiffeid.FromString(member); err != nil || id.Path() == "" {
			return errors.New("a SPIFFE ID is spiffe://DOMAIN/PATH, without a user, port, query, fragment or escape; " +
				"the domain has a-z 0-9 . - _, and segments of the path, none of which is . or .., have letters, digits and . - _ in them")
		}
	case "oidc":
		issuer, subject, _ := strings.Cut(name, "#")
		if issuer == "" || subject == "" {
			return errors.New("it is oidc:ISSUER#SUBJECT, with the issuer's URL and the claim sub")
		}
	case "group":
		issuer, group, _ := strings.Cut(name, "#")
		if issuer == "" || group == "" {
			return errors.New("it is group:ISSUER#NAME, with the issuer's URL, for a group belongs to its issuer")
		}
	case "cert", "token", "chef":
		if name == "" {
			return errors.New("the name is missing: it is " + kind + ":NAME")
		}
	default:
		return errors.New("it is one of " + members)
	}
	return nil
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

package acl

import (
	"slices"
	"strings"

	"understudy/admin/access"
)

const (
	// chefPrefix is that of the members who sign as Chef's clients do.
	chefPrefix = "chef:"
	// groupPrefix is that of the members who are a group.
	groupPrefix = "group:"
)

// forms begin the members that are written in full among actors.
var forms = []string{chefPrefix, "spiffe://", "cert:", "oidc:", "token:"}

// whole reports whether an actor is written as a member.
func whole(actor string) bool {
	return actor == access.AllAuthenticated || slices.ContainsFunc(forms, func(form string) bool { return strings.HasPrefix(actor, form) })
}

// actor is how an entry shows a member that is no group: the name of one who signs, and
// others in full. A name that could be taken for a member is shown in full, too.
func actor(member string) string {
	if name, signs := strings.CutPrefix(member, chefPrefix); signs && !whole(name) {
		return name
	}
	return member
}

// memberOf is the member that an actor of an entry means.
func memberOf(actor string) string {
	if whole(actor) {
		return actor
	}
	return chefPrefix + actor
}

// Signer is the name by which a member signs, and false if it is another kind of member.
func Signer(member string) (string, bool) { return strings.CutPrefix(member, chefPrefix) }

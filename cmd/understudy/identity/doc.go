// Package identity has the commands about who asks a server, and who may do what there.
//
// Who asks is found by `login` and `logout`, which get and drop the token of an OpenID
// Connect issuer, `token`, which makes one for a token file, and `whoami`, which shows what
// the server makes of all that. Who may do what is `iam`: bindings of members to roles on
// a policy, a location or a project (google.iam.v1.IAMPolicy), inherited downwards.
//
// The commands are clients of the admin API as those in package cli are; `token` and `iam
// roles` ask nobody.
//
// # Members, roles, bindings
//
// A member is whom a server knows a caller as: token:ci, cert:web, spiffe://…, oidc:ISSUER#SUBJECT,
// chef:alice, group:ISSUER#NAME or allAuthenticated. A role is a set of permissions. A binding gives
// a role to members on a resource, and holds for all that is below it:
//
//	projects/shop                                    owner: group:…#platform
//	└── locations/prod                               committer: token:release
//	    └── policies/web                             experimenter: token:ci
//
// An experiment has the bindings of its policy. Owners by the flag --admin-owner of a server are
// stored nowhere, and hold for everything.
//
// # How bindings change
//
// A server keeps the bindings of a resource as one record with an etag. Every change is read,
// change, write with the etag that was read: `grant` and `revoke` do it again when somebody was
// faster, since what they add or remove stays the same; `apply` gives up, since it would change
// what was not shown.
//
// # What is secret
//
// Tokens are printed once, by `token`, and kept by `login` in a file of the user alone. No command
// prints a token that somebody else made, and none sends one over a connection that others could
// read, but for a loopback address.
package identity

import (
	"github.com/spf13/cobra"
)

// Commands are all of them.
// Package main groups them in its help, apart from the commands about policies.
func Commands() []*cobra.Command {
	return []*cobra.Command{newLogin(), newLogout(), newWhoAmI(), newIAM(), newToken()}
}

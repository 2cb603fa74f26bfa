// Package identity has the commands about who asks a server, and who may do what there.
//
// Who asks is found by `login` and `logout`, which get and drop the token of an OpenID
// Connect issuer, `token`, which makes one for a token file, and `whoami`, which shows what
// the server makes of all that. Who may do what is `iam`: bindings of members to roles on
// a policy, a location or a project (google.iam.v1.IAMPolicy), inherited downwards.
//
// The commands are clients of the admin API as those in package cli are; `token` and `iam
// roles` ask nobody.
package identity

import (
	"github.com/spf13/cobra"
)

// Commands are all of them.
func Commands() []*cobra.Command {
	return []*cobra.Command{newLogin(), newLogout(), newWhoAmI(), newIAM(), newToken()}
}

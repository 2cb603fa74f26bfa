package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"cloud.google.com/go/iam/apiv1/iampb"
	"github.com/spf13/cobra"

	"understudy/admin/access"
	"understudy/admin/authentication"
	"understudy/admin/authentication/tokens"
	"understudy/authz"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/terminal"
)

// whoAmI is what is printed with -o json: what the server says of the caller, and what it
// may on a resource.
type whoAmI struct {
	authentication.WhoAmI
	// Resource is what Roles and Permissions are about.
	Resource string `json:"resource"`
	// Roles are those all of whose permissions the caller has there.
	Roles []access.Role `json:"roles"`
	// Permissions are all that the caller has there.
	Permissions []access.Permission `json:"permissions"`
}

// newWhoAmI makes the command that shows who the server takes the caller for.
//
// It is the first thing to run when a call is refused: it shows whether the server knows the caller at
// all, by which member, and what is missing.
func newWhoAmI() *cobra.Command {
	var on scope
	cmd, _ := cli.NewCommand(cli.Help{
		Use:   "whoami [POLICY]",
		Short: "Show who you are to the server, and what you may",
		Long: `WHO is your member in bindings, as 'understudy iam grant' takes it. MAY lists the roles
all of whose permissions you have on POLICY, such as web, or without one on the location. What you may beyond these roles is listed by itself.
A role on one policy shows with the name of that policy alone.`,
	},
		cobra.MaximumNArgs(1), func(c *cli.Client, ctx context.Context, args []string) error {
			resource, err := on.resource(c, args)
			if err != nil {
				return err
			}
			who, err := c.WhoAmI(ctx)
			if err != nil {
				return err
			}
			answer := whoAmI{WhoAmI: who, Resource: resource, Roles: []access.Role{}, Permissions: []access.Permission{}}
			if err := answer.ask(ctx, c); err != nil {
				return err
			}
			return answer.print(c)
		})
	cmd.Example = `  understudy whoami
  understudy whoami web --token-file ci.token
  understudy whoami --project -o json`
	on.bind(cmd.Flags())
	return cmd
}

// ask fills in what the caller may.
//
// AIP-211 and google.iam.v1: TestIamPermissions answers with those that the caller has, and with none
// where the resource does not exist or may not be seen.
func (w *whoAmI) ask(ctx context.Context, c *cli.Client) error {
	all := access.RoleOwner.Permissions()
	r := &iampb.TestIamPermissionsRequest{Resource: w.Resource}
	for _, p := range all {
		r.Permissions = append(r.Permissions, string(p))
	}
	answer, err := c.IAM.TestIamPermissions(ctx, r)
	if err != nil {
		return err
	}
	for _, p := range answer.Permissions {
		w.Permissions = append(w.Permissions, access.Permission(p))
	}
	for _, role := range access.RolesByPower() {
		// A role counts where the caller has all of it, wherever it comes from.
		if !slices.ContainsFunc(role.Permissions(), w.lacks) {
			w.Roles = append(w.Roles, role)
		}
	}
	return nil
}

// lacks reports whether the caller does not have a permission that applies to the resource.
//
// A permission about projects, for example, is never had on a policy; a role is not lacking for that.
func (w *whoAmI) lacks(p access.Permission) bool {
	return p.AppliesTo(w.Resource) && !slices.Contains(w.Permissions, p)
}

// beyond are the permissions that are in none of the roles.
func (w *whoAmI) beyond() (out []string) {
	for _, p := range w.Permissions {
		if !slices.ContainsFunc(w.Roles, func(r access.Role) bool { return r.Has(p) }) {
			out = append(out, string(p))
		}
	}
	return out
}

// print writes it as text or as JSON.
//
// Groups are a line each: an issuer may have hundreds, with long names.
func (w *whoAmI) print(c *cli.Client) error {
	if c.Output == "json" {
		return terminal.WriteValue(c.Out, w)
	}
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	// A server without authentication knows no principal: everybody may do everything there.
	who, method := w.Principal, w.Method
	if w.Principal == "" {
		who, method = "nobody in particular", "none: the server has no authentication"
	}
	fmt.Fprintf(t, "WHO\t%s\n", terminal.Escape(who))
	if w.Display != "" {
		fmt.Fprintf(t, "CALLED\t%s\n", terminal.Escape(w.Display))
	}
	fmt.Fprintf(t, "METHOD\t%s\n", method)
	// The label stands before the first group alone.
	label := "GROUPS"
	for _, group := range w.Groups {
		fmt.Fprintf(t, "%s\t%s\n", label, terminal.Escape(group))
		label = ""
	}
	if w.Expires != nil {
		fmt.Fprintf(t, "UNTIL\t%s\n", w.Expires.Local().Format(time.DateTime))
		w.warnOfEnd(c, time.Now())
	}
	fmt.Fprintf(t, "ON\t%s\n", w.Resource)
	fmt.Fprintf(t, "MAY\t%s\n", strings.Join(append(titles(w.Roles), w.nothing()...), ", "))
	for _, p := range w.beyond() {
		fmt.Fprintf(t, "\t%s\n", p)
	}
	return t.Flush()
}

// warnOfEnd says that the token of a token file expires soon: nothing renews it by itself, as
// logins and certificates are.
func (w *whoAmI) warnOfEnd(c *cli.Client, now time.Time) {
	name, ok := strings.CutPrefix(w.Principal, tokenPrefix)
	if ok && w.Expires.Sub(now) < tokens.Soon {
		fmt.Fprintf(c.Err, "note: the token expires on %s: have the operator of the server make another one with `understudy token %s`\n",
			w.Expires.Local().Format(time.DateTime), terminal.Escape(name))
	}
}

// nothing is what stands in place of roles if there are none.
//
// Whether something does not exist is not said to those who may not see it, so the text has both.
func (w *whoAmI) nothing() []string {
	switch {
	case len(w.Roles) > 0:
		return nil
	case len(w.Permissions) > 0:
		return []string{"a part of a role"}
	}
	if authz.ResourceName(w.Resource).Policy() != "" {
		return []string{"nothing, or it does not exist"}
	}
	return []string{"nothing here, or it does not exist; a role on one policy shows with its name: `understudy whoami POLICY`"}
}

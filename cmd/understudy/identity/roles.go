package identity

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"understudy/admin/access"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// titles are roles as people name them.
// A role's whole name is roles/understudy.viewer, and its title viewer.
func titles(roles []access.Role) []string {
	out := make([]string, len(roles))
	for i, r := range roles {
		out[i] = r.Title()
	}
	return out
}

// parseRole reads a role by its title or its whole name.
func parseRole(text string) (access.Role, error) {
	for _, role := range access.RolesByPower() {
		if text == role.Title() || text == string(role) {
			return role, nil
		}
	}
	return "", command.Usage(fmt.Errorf("there is no role %q; the roles are %s", text, strings.Join(titles(access.RolesByPower()), ", ")))
}

// shownRole is a role as a table has it: one that is not known keeps its whole name.
func shownRole(name string) string {
	if role := access.Role(name); role.Permissions() != nil {
		return role.Title()
	}
	return name
}

// roleJSON is a role as it is printed with -o json.
type roleJSON struct {
	Name        access.Role         `json:"name"`
	Title       string              `json:"title"`
	Permissions []access.Permission `json:"permissions"`
}

// newRoles makes the command that lists the roles. It asks no server.
func newRoles() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "roles [ROLE]",
		Short: "List the roles, and which permissions they have",
		Long: `List the roles with their permissions: a line for each permission, and a column for each
role. With a ROLE, the permissions of that one.`,
		Example: `  understudy iam roles
  understudy iam roles committer -o json`,
		Args: command.Arguments(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !command.OneOf(output, "text", "json") {
				return command.Usage(errors.New("--output: it is text or json"))
			}
			roles := access.RolesByPower()
			if len(args) > 0 {
				role, err := parseRole(args[0])
				if err != nil {
					return err
				}
				roles = []access.Role{role}
			}
			c := &cli.Client{Output: output}
			c.Attach(cmd)
			// The client is not connected: it is there for its output alone.
			return printRoles(c, roles)
		},
		ValidArgsFunction: cobra.FixedCompletions(titles(access.RolesByPower()), cobra.ShellCompDirectiveNoFileComp),
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	command.CompleteOutput(cmd, "text", "json")
	return cmd
}

// printRoles writes roles as a table or as JSON.
func printRoles(c *cli.Client, roles []access.Role) error {
	if c.Output == "json" {
		out := make([]roleJSON, len(roles))
		for i, r := range roles {
			out[i] = roleJSON{r, r.Title(), r.Permissions()}
		}
		return terminal.WriteValue(c.Out, map[string]any{"roles": out})
	}
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "PERMISSION\t%s\n", strings.ToUpper(strings.Join(titles(roles), "\t")))
	for _, p := range access.RoleOwner.Permissions() {
		line := []string{string(p)}
		// A permission that none of the roles in the table has is left out: with one ROLE only its own are
		// shown.
		had := false
		for _, r := range roles {
			mark := ""
			if r.Has(p) {
				mark, had = "yes", true
			}
			line = append(line, mark)
		}
		if had {
			fmt.Fprintln(t, strings.TrimRight(strings.Join(line, "\t"), "\t"))
		}
	}
	return t.Flush()
}

package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloud.google.com/go/iam/apiv1/iampb"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/access"
	"understudy/authz"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// attempts is how often a change is made anew because somebody else changed the bindings
// meanwhile.
//
// Each attempt loses only against a change that was made, so five in a row mean that something
// writes without a pause; the error of the server is shown then.
const attempts = 5

// resourceHelp is in the help of the commands about bindings.
const resourceHelp = `RESOURCE is the ID of a policy, such as web, or a whole resource name. Without one it is the location
of --location, and with --project the project that this is in. What holds for a project
holds for its locations, and what holds for a location for its policies.`

// memberHelp says what a member is.
const memberHelp = `MEMBER is token:NAME, cert:NAME, spiffe://DOMAIN/PATH, oidc:ISSUER#SUBJECT, chef:NAME,
group:ISSUER#NAME or allAuthenticated; 'understudy whoami' shows yours. ROLE is viewer,
experimenter, committer, editor or owner; 'understudy iam roles' shows what they may.`

// scope is what a command about bindings is about.
//
// Bindings of a project hold in all of its locations, and those of a location for all of its
// policies.
type scope struct {
	// project is the project of the location.
	project bool
}

// bind declares the flag.
func (s *scope) bind(f *pflag.FlagSet) {
	f.BoolVar(&s.project, "project", false, "the project of --location")
}

// resource is the resource name that the arguments mean.
//
// Without arguments it is the location of --location. A name with a slash that is no resource name
// is an experiment, which has no bindings of its own; the error names the policy that has them.
func (s *scope) resource(c *cli.Client, args []string) (string, error) {
	// The client has checked --location, so it has a project.
	location := authz.ResourceName(c.Location())
	switch {
	case len(args) > 0 && s.project:
		return "", command.Usage(errors.New("--project is the project of the location: give either it or a RESOURCE"))
	case s.project:
		return "projects/" + location.Project(), nil
	case len(args) == 0:
		return c.Location(), nil
	case !strings.HasPrefix(args[0], "projects/") && strings.Contains(args[0], "/"):
		return "", command.Usage(fmt.Errorf("%q: an experiment has the bindings of its policy, %s", args[0], strings.SplitN(args[0], "/", 2)[0]))
	}
	return c.Name(args[0]), nil
}

// newIAM makes the commands about bindings.
//
// The roles in its help are those of package access, in words; `iam roles` has their permissions.
func newIAM() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "iam",
		Short: "Show and change who may do what",
		Long: `Show and change who may do what: bindings of members to roles on a policy, a location
or a project (google.iam.v1.IAMPolicy).

  viewer        reads everything, reports included
  experimenter  and creates, changes, starts, stops and deletes experiments
  committer     a viewer who accepts, commits, rolls back and promotes
  editor        experimenter and committer, who also changes policies directly
  dataEditor    reads datasets, and uploads, patches and rolls back what they contain
  owner         everything, and says who may do what`,
		Example: `  understudy iam get
  understudy iam grant shop token:ci experimenter
  understudy iam grant --project group:https://login.example.com#platform owner
  understudy iam revoke shop token:ci experimenter
  understudy iam apply -f iam.yaml`,
		// `iam get2` is a mistake, and no request for help.
		Args: command.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	// In their own group, so that cobra does not list help and completion between them.
	cmd.AddGroup(&cobra.Group{ID: "iam", Title: "Commands:"})
	for _, c := range []*cobra.Command{newIAMGet(), newIAMChange("grant"), newIAMChange("revoke"), newIAMApply(), newRoles()} {
		c.GroupID = "iam"
		cmd.AddCommand(c)
	}
	return cmd
}

// newIAMGet shows the bindings of a resource.
//
// Text always shows what is inherited: who asks who may do something wants all who may. JSON is the
// resource as the API has it, to be edited and written back, so what is inherited is not in it.
func newIAMGet() *cobra.Command {
	var on scope
	var withInherited bool
	cmd, _ := cli.NewCommand(cli.Help{
		Use:   "get [POLICY]",
		Short: "Show who has which role on a policy, a location or a project",
		Long: strings.ReplaceAll(resourceHelp, "RESOURCE", "POLICY") + `

INHERITED FROM is - for the bindings that are stored with the resource itself; else it is
what is above it, or --admin-owner of the server that answers. -o json is what is
stored, as the API takes it back; with --inherited it is that under "policy", and what is
inherited next to it.`,
	},
		cobra.MaximumNArgs(1), func(c *cli.Client, ctx context.Context, args []string) error {
			resource, err := on.resource(c, args)
			if err != nil {
				return err
			}
			policy, err := c.IAM.GetIamPolicy(ctx, &iampb.GetIamPolicyRequest{Resource: resource})
			if err != nil {
				return err
			}
			if c.Output == "json" && !withInherited {
				return terminal.WriteJSON(c.Out, policy)
			}
			// Reading the levels above takes a call each. They may belong to others, so a refusal there is a
			// note, and no error.
			above, err := readInherited(ctx, c, resource)
			if err != nil {
				return err
			}
			return boundPolicy{policy, above}.print(c)
		})
	cmd.Example = `  understudy iam get shop
  understudy iam get --location projects/shop/locations/prod
  understudy iam get --project -o json`
	on.bind(cmd.Flags())
	cmd.Flags().BoolVar(&withInherited, "inherited", false, "with -o json: what is inherited, too")
	return cmd
}

// newIAMChange grants or revokes a role.
//
// verb is grant or revoke. Both take the same arguments: a member and a role behind an optional
// resource, as people say it.
func newIAMChange(verb string) *cobra.Command {
	var on scope
	short := map[string]string{"grant": "Give a member a role", "revoke": "Take a role from a member"}[verb]
	cmd, _ := cli.NewCommand(cli.Help{
		Use:   verb + " [POLICY] MEMBER ROLE",
		Short: short + " on a policy, a location or a project",
		Long:  strings.ReplaceAll(resourceHelp, "RESOURCE", "POLICY") + "\n\n" + memberHelp,
	},
		cobra.RangeArgs(2, 3), func(c *cli.Client, ctx context.Context, args []string) error {
			// The last two are member and role, so that the resource may be left out.
			words := args[len(args)-2:]
			resource, err := on.resource(c, args[:len(args)-2])
			if err != nil {
				return err
			}
			role, err := parseRole(words[1])
			if err != nil {
				return err
			}
			// Only what is granted is checked: what is revoked is compared with what is there.
			if err := access.CheckMember(words[0]); err != nil && verb == "grant" {
				return command.Usage(fmt.Errorf("MEMBER: %w", err))
			}
			// The server checks that the caller may do it; here it is only sent.
			if err := change(ctx, c, granted{verb, words[0], role, resource}); err != nil {
				return err
			}
			if verb == "grant" {
				warnOfUnknown(ctx, c, words[0])
			}
			return nil
		})
	cmd.Example = fmt.Sprintf(`  understudy iam %[1]s shop token:ci experimenter
  understudy iam %[1]s group:https://login.example.com#platform committer --location projects/shop/locations/prod
  understudy iam %[1]s --project spiffe://cluster.local/ns/ci/sa/deploy editor`, verb)
	// NewCommand completes policies; the last argument is a role.
	policies := cmd.ValidArgsFunction
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 && !on.project {
			return policies(cmd, args, typed)
		}
		// Behind a member, which has a colon, comes a role. A policy's ID has none.
		if len(args) == 2 || len(args) == 1 && strings.Contains(args[0], ":") {
			return titles(access.RolesByPower()), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	on.bind(cmd.Flags())
	return cmd
}

// granted is what a change grants or revokes.
type granted struct {
	// verb is grant or revoke.
	verb, member string
	role         access.Role
	resource     string
}

// change reads bindings, changes them and writes them back, again and again if somebody
// else was faster.
//
// What was asked for may be so already: then nothing is written, so that no event of the audit log
// says that somebody was given a role that they had.
func change(ctx context.Context, c *cli.Client, g granted) error {
	for i := 1; ; i++ {
		policy, err := c.IAM.GetIamPolicy(ctx, &iampb.GetIamPolicyRequest{Resource: g.resource})
		if err != nil {
			return err
		}
		if !rebind(policy, g.verb, g.member, g.role) {
			return printChange(c, policy, unchanged[g.verb], g)
		}
		// policy has the etag that was read: ABORTED says that it is not the present one any more.
		policy, err = c.IAM.SetIamPolicy(ctx, &iampb.SetIamPolicyRequest{Resource: g.resource, Policy: policy})
		if status.Code(err) == codes.Aborted && i < attempts {
			continue
		}
		if err != nil {
			return err
		}
		return printChange(c, policy, changed[g.verb], g)
	}
}

// What a change did, with the member, the role and the resource.
var (
	changed   = map[string]string{"grant": "%s is %s of %s now\n", "revoke": "%s is no longer %s of %s\n"}
	unchanged = map[string]string{"grant": "%s was %s of %s already\n", "revoke": "%s was not %s of %s; what it inherits is revoked where it was granted\n"}
)

// rebind adds or removes a member, and reports whether that changes anything.
//
// It leaves the order of all others alone, so that a diff of the bindings shows one line. A role
// without members stays as an empty binding, which the server drops.
func rebind(policy *iampb.Policy, verb, member string, role access.Role) bool {
	// The server stores one binding of each role.
	i := slices.IndexFunc(policy.Bindings, func(b *iampb.Binding) bool { return b.Role == string(role) })
	bound := i >= 0 && slices.Contains(policy.Bindings[i].Members, member)
	switch {
	case bound == (verb == "grant"):
		return false
	case bound:
		b := policy.Bindings[i]
		b.Members = slices.DeleteFunc(b.Members, func(m string) bool { return m == member })
	case i >= 0:
		policy.Bindings[i].Members = append(policy.Bindings[i].Members, member)
	default:
		policy.Bindings = append(policy.Bindings, &iampb.Binding{Role: string(role), Members: []string{member}})
	}
	return true
}

// printChange says what a change did, or prints the bindings as JSON.
func printChange(c *cli.Client, policy *iampb.Policy, text string, g granted) error {
	if c.Output == "json" {
		return terminal.WriteJSON(c.Out, policy)
	}
	_, err := fmt.Fprintf(c.Out, text, terminal.Escape(g.member), g.role.Title(), g.resource)
	return err
}

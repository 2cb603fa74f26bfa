package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"cloud.google.com/go/iam/apiv1/iampb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"understudy/admin/access"
	"understudy/authz"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/terminal"
)

// ownerFlag is where the owners come from who are stored nowhere.
const ownerFlag = "--admin-owner"

// inherited is a binding that holds for a resource, and is not stored with it.
//
// As JSON it is an element of "inherited".
type inherited struct {
	// From is the resource that it is stored with, or ownerFlag.
	From    string   `json:"from"`
	Role    string   `json:"role"`
	Members []string `json:"members"`
}

// boundPolicy are the bindings of a resource, with what it inherits.
type boundPolicy struct {
	policy *iampb.Policy
	above  []inherited
}

// readInherited reads what a resource inherits, the nearest first. What the caller may not
// read is named in a note.
//
// The server needs no such call to decide: it reads all levels at one instant. Here they are read
// one after the other, and a change between two reads may show on one level alone.
func readInherited(ctx context.Context, c *cli.Client, resource string) ([]inherited, error) {
	// Not nil: as JSON it is an empty list.
	out := []inherited{}
	for _, parent := range parentsOf(resource) {
		policy, err := c.IAM.GetIamPolicy(ctx, &iampb.GetIamPolicyRequest{Resource: parent})
		if status.Code(err) == codes.PermissionDenied {
			fmt.Fprintf(c.Err, "note: what is inherited from %s is not shown: you may not read its bindings\n", parent)
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, b := range policy.Bindings {
			out = append(out, inherited{parent, b.Role, b.Members})
		}
	}
	members, err := c.Members(ctx)
	if err != nil {
		fmt.Fprintf(c.Err, "note: who is an owner by %s is not shown: %v\n", ownerFlag, err)
		return out, nil
	}
	if len(members.Owners) > 0 {
		out = append(out, inherited{ownerFlag, string(access.RoleOwner), members.Owners})
	}
	return out, nil
}

// parentsOf are the location and the project of a resource, as far as it is not one itself.
//
// Of a policy these are its location and its project, of a location its project, of a project none.
func parentsOf(resource string) []string {
	name := authz.ResourceName(resource)
	parents := []string{string(name.Location()), "projects/" + name.Project()}
	return slices.DeleteFunc(parents, func(p string) bool { return p == "" || p == resource })
}

// print writes a line for each member of each role, or JSON.
func (b boundPolicy) print(c *cli.Client) error {
	if c.Output == "json" {
		// The policy is a message, whose JSON is that of protobuf: its etag is base64 there.
		stored, err := protojson.Marshal(b.policy)
		if err != nil {
			return fmt.Errorf("writing the bindings as JSON: %w", err)
		}
		return terminal.WriteValue(c.Out, struct {
			Policy    json.RawMessage `json:"policy"`
			Inherited []inherited     `json:"inherited"`
		}{stored, b.above})
	}
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ROLE\tMEMBER\tINHERITED FROM")
	line := func(role, member, from string) {
		fmt.Fprintf(t, "%s\t%s\t%s\n", shownRole(role), terminal.Escape(member), from)
	}
	for _, stored := range b.policy.Bindings {
		for _, member := range stored.Members {
			line(stored.Role, member, "-")
		}
	}
	for _, above := range b.above {
		for _, member := range above.Members {
			line(above.Role, member, above.From)
		}
	}
	return t.Flush()
}

// tokenPrefix begins the member of a token of a token file.
const tokenPrefix = "token:"

// warnOfUnknown says that a role was given to tokens that the server does not know, if the
// caller may know their names.
//
// A token's name that is misspelled is no error: the token file may get it later, and servers may
// have other files. Members of other kinds cannot be checked, since only their issuer knows them.
func warnOfUnknown(ctx context.Context, c *cli.Client, given ...string) {
	given = slices.DeleteFunc(slices.Clone(given), func(m string) bool { return !strings.HasPrefix(m, tokenPrefix) })
	slices.Sort(given)
	if len(given) == 0 {
		return
	}
	members, err := c.Members(ctx)
	if err != nil || members.Tokens == nil {
		return
	}
	known := "the server has no token file with tokens"
	if len(members.Tokens) > 0 {
		known = "there are " + strings.Join(members.Tokens, ", ")
	}
	for _, member := range slices.Compact(given) {
		name := strings.TrimPrefix(member, tokenPrefix)
		if !slices.Contains(members.Tokens, name) {
			fmt.Fprintf(c.Err, "note: no token file of the server has the name %s, so nobody is %s now: %s\n", name, member, known)
		}
	}
}

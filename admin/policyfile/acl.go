package policyfile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin"
	"understudy/admin/access"
	"understudy/admin/aip"
	"understudy/admin/library"
	"understudy/admin/policyfile/acl"
)

// IAM keeps the bindings of resources: those of google.iam.v1.IAMPolicy. Implementations
// are safe for concurrent use.
type IAM interface {
	// Bindings returns those of a resource without what it inherits, and their etag.
	Bindings(ctx context.Context, resource string) (acl.Bindings, []byte, error)
	// SetBindings replaces them. The error is ABORTED if they have another etag by now.
	SetBindings(ctx context.Context, resource string, b acl.Bindings, etag []byte) error
}

// getGroupACL is the list of a group that is there. Of one that is not, it is 404, as
// every path below it.
func getGroupACL(c *call) (*reply, error) {
	if _, err := c.library.Group(c.context, c.group()); err != nil {
		return nil, orMissing(err, c.noGroup())
	}
	return c.getACL()
}

// getPolicyACL is getGroupACL of a policy.
func getPolicyACL(c *call) (*reply, error) {
	if _, err := c.library.Policy(c.context, c.policy()); err != nil {
		return nil, orMissing(err, c.noPolicy())
	}
	return c.getACL()
}

// getContainerACL is getGroupACL of a container, which is always there.
func getContainerACL(c *call) (*reply, error) { return c.getACL() }

// putGroupACL replaces one entry of the list of a group.
func putGroupACL(c *call) (*reply, error) {
	if _, err := c.library.Group(c.context, c.group()); err != nil {
		return nil, orMissing(err, c.noGroup())
	}
	return c.putACL()
}

// putPolicyACL is putGroupACL of a policy.
func putPolicyACL(c *call) (*reply, error) {
	if _, err := c.library.Policy(c.context, c.policy()); err != nil {
		return nil, orMissing(err, c.noPolicy())
	}
	return c.putACL()
}

// putContainerACL is putGroupACL of a container.
func putContainerACL(c *call) (*reply, error) { return c.putACL() }

// bound is the resource whose bindings the list of the route is about. That is the one on
// which the route needs a permission.
func (c *call) bound() string {
	resource, _ := needs[c.permissions.route][0].resource(c.permissions.project, c.parameters)
	return resource
}

// getACL answers with actors, as older servers of Chef do, also if granular lists are asked
// for: it is not known who is a user, and who a client.
func (c *call) getACL() (*reply, error) {
	if c.iam == nil {
		return &reply{status: http.StatusOK, value: acl.Of(nil)}, nil
	}
	bindings, _, err := c.iam.Bindings(c.context, c.bound())
	if err != nil {
		return nil, err
	}
	return &reply{status: http.StatusOK, value: acl.Of(bindings)}, nil
}

// putACL replaces one entry. Changes that others make meanwhile are not lost.
func (c *call) putACL() (*reply, error) {
	if c.iam == nil {
		return nil, problem(http.StatusMethodNotAllowed, "permissions cannot be changed: this server has none")
	}
	permission := acl.Permission(c.parameters[":permission"])
	if !permission.Valid() {
		return nil, invalid("Field 'permission' invalid : it is create, read, update, delete or grant")
	}
	wanted, err := c.entry(permission)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		err := c.replaceEntry(permission, wanted)
		if err == nil {
			return &reply{status: http.StatusOK, value: struct{}{}}, nil
		}
		if status.Code(err) != codes.Aborted || attempt == admin.MaxAttempts {
			return nil, err
		}
	}
}

// replaceEntry makes one attempt.
func (c *call) replaceEntry(permission acl.Permission, wanted acl.Entry) error {
	bindings, etag, err := c.iam.Bindings(c.context, c.bound())
	if err != nil {
		return err
	}
	if err := c.checkAdded(bindings.Added(permission, wanted)); err != nil {
		return err
	}
	changed, err := bindings.With(permission, wanted)
	if err != nil {
		return invalid("Field '" + string(permission) + "' invalid : " + err.Error())
	}
	return c.iam.SetBindings(c.context, c.bound(), changed, etag)
}

// checkAdded refuses names that have no key: a mistyped one would stay unnoticed until
// somebody gets a key of that name.
func (c *call) checkAdded(members []string) error {
	var unknown []string
	for _, member := range members {
		if name, signs := acl.Signer(member); signs && (c.keys == nil || !c.keys.Has(name)) {
			unknown = append(unknown, aip.Shown(name))
		}
	}
	if unknown == nil {
		return nil
	}
	return invalid(fmt.Sprintf("The actor(s) %s do not exist in this organization as clients or users: they have no --chef-key.", strings.Join(unknown, ", ")))
}

// superuser is Chef's own, whom some clients put into every entry. Here owners of everything
// are configured, so without a key the name means nobody.
const superuser = "pivotal"

// givenEntry is an entry as a body has it.
type givenEntry struct {
	Actors, Groups *[]string
	Users, Clients *[]string
}

// check says, in the words of Chef's server, which lists do not go together.
func (e givenEntry) check() error {
	switch {
	case e.Actors == nil:
		return invalid("Field 'actors' missing")
	case e.Groups == nil:
		return invalid("Field 'groups' missing")
	case (e.Users == nil) != (e.Clients == nil):
		return invalid("You provided one of 'users' and 'clients' with your request. Including it also requires that you provide the other")
	case e.Users != nil && len(*e.Actors) > 0:
		return invalid("When providing 'users' and 'clients' fields, the 'actors' field must have a value of [].")
	default:
		return nil
	}
}

// entry reads {PERMISSION:{"actors":[…],"groups":[…]}}, in which actors may be divided into
// users and clients.
func (c *call) entry(permission acl.Permission) (acl.Entry, error) {
	var given map[acl.Permission]*givenEntry
	if err := json.Unmarshal(c.body, &given); err != nil {
		return acl.Entry{}, invalid("Field '" + string(permission) + `' invalid : the body is {"` + string(permission) + `":{"actors":["NAME"],"groups":["NAME"]}}`)
	}
	e := given[permission]
	switch {
	case e == nil:
		return acl.Entry{}, invalid("Field '" + string(permission) + "' missing")
	case len(given) > 1:
		return acl.Entry{}, invalid("Field '" + string(permission) + "' invalid : the body has this entry alone")
	}
	if err := e.check(); err != nil {
		return acl.Entry{}, err
	}
	entry := acl.Entry{Groups: *e.Groups}
	for _, list := range []*[]string{e.Actors, e.Users, e.Clients} {
		if list == nil {
			continue
		}
		for _, name := range *list {
			if name != superuser || c.keys != nil && c.keys.Has(superuser) {
				entry.Actors = append(entry.Actors, name)
			}
		}
	}
	return entry, nil
}

// getClient is what knife asks before it adds a client to a list: whether there is one. Who has a
// key is said to whom it concerns alone, as at /members of the admin API; for all others every name
// is that of a client, which a list then does not take.
func getClient(c *call) (*reply, error) {
	name := c.parameters[":actor"]
	if c.keys == nil || !c.keys.Has(name) {
		allowed, err := c.permissions.has(c.context, access.ProjectsGetIAMPolicy)
		if err != nil {
			return nil, err
		}
		if allowed {
			return nil, problem(http.StatusNotFound, "Cannot load client "+aip.Shown(name))
		}
	}
	return &reply{status: http.StatusOK, value: map[string]any{
		"name": name, "clientname": name, "orgname": c.permissions.project, "validator": false, "json_class": "Chef::ApiClient", "chef_type": "client",
	}}, nil
}

// getGroupOfActors is getClient of a group of actors. Who is in one is said by what
// authenticates its members, so every name is that of a group.
func getGroupOfActors(c *call) (*reply, error) {
	name, nobody := c.parameters[":actor"], []string{}
	return &reply{status: http.StatusOK, value: map[string]any{
		"name": name, "groupname": name, "orgname": c.permissions.project, "actors": nobody, "users": nobody, "clients": nobody, "groups": nobody,
	}}, nil
}

// removable returns PERMISSION_DENIED if the sender may not take a policy out of a group in
// which it is active.
func (c *call) removable(group library.GroupID) error {
	return c.permissions.checkFound(c.context, ":active", string(group))
}

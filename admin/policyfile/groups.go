package policyfile

import (
	"encoding/json"
	"fmt"
	"net/http"

	"understudy/admin"
	"understudy/admin/library"
	"understudy/authz"
)

// reservedGroup is no group: no sidecar enforces that location, and the library is there.
const reservedGroup = admin.ReservedLocation

// activeRevision is what a list says of a policy in a group. Chef's clients decode
// it as an object of texts, so it has nothing else.
type activeRevision struct {
	RevisionID library.RevisionID `json:"revision_id"`
}

// activeSet is what is active in a group, as lists and groups show it.
func activeSet(g library.Group) map[authz.PolicyID]activeRevision {
	out := make(map[authz.PolicyID]activeRevision)
	for policy, revision := range g.Active {
		out[policy] = activeRevision{revision}
	}
	return out
}

// groupDocument is a group: what RFC-042 says of its promotion, and what Chef's server
// says of it.
type groupDocument struct {
	Name     library.GroupID                   `json:"name"`
	Next     library.GroupID                   `json:"next_group_name,omitempty"`
	URI      string                            `json:"uri"`
	Policies map[authz.PolicyID]activeRevision `json:"policies"`
}

// document is a group as all calls about one return it.
func (c *call) document(g library.Group) groupDocument {
	return groupDocument{g.ID, g.Next, c.uri("policy_groups", string(g.ID)), activeSet(g)}
}

// listGroups leaves policies out of a group that has none, as Chef's server does.
func listGroups(c *call) (*reply, error) {
	groups, err := c.library.Groups(c.context)
	if err != nil {
		return nil, err
	}
	type entry struct {
		URI      string                            `json:"uri"`
		Policies map[authz.PolicyID]activeRevision `json:"policies,omitempty"`
	}
	out := make(map[library.GroupID]entry)
	for _, g := range groups {
		out[g.ID] = entry{c.uri("policy_groups", string(g.ID)), activeSet(g)}
	}
	return &reply{status: http.StatusOK, value: out}, nil
}

// getGroup returns a group as it was at one instant: its next group and what is active in
// it belong together.
func getGroup(c *call) (*reply, error) {
	g, err := c.library.Group(c.context, c.group())
	if err != nil {
		return nil, orMissing(err, c.noGroup())
	}
	return &reply{status: http.StatusOK, value: c.document(g)}, nil
}

// putGroup takes what getGroup says, changed or not, and goes by its name and its
// next_group_name.
func putGroup(c *call) (*reply, error) {
	next, err := c.nextGroup()
	if err != nil {
		return nil, err
	}
	g, created, err := c.library.SetGroup(c.context, c.group(), next)
	if err != nil {
		return nil, leadTo.refused(err)
	}
	answer := &reply{status: http.StatusOK, value: c.document(g)}
	if created {
		answer.status = http.StatusCreated
	}
	return answer, nil
}

// nextGroup reads the body of putGroup. It takes uri and policies, which getGroup
// returns, and refuses all else: a mistyped next_group_name would take the group out of
// its chain.
func (c *call) nextGroup() (library.GroupID, error) {
	fields, err := members(c.body)
	if err != nil {
		return "", invalid("invalid JSON")
	}
	next := ""
	for _, f := range fields {
		switch f.name {
		case "name":
			err = c.sameGroup(f.value)
		case "next_group_name":
			next, err = nextName(f.value)
		case "uri", "policies":
		default:
			err = invalid("Field '" + f.name + "' invalid : a policy group has name and next_group_name")
		}
		if err != nil {
			return "", err
		}
	}
	return library.GroupID(next), nil
}

// sameGroup checks that a body names the group of the path.
func (c *call) sameGroup(given json.RawMessage) error {
	name, ok := text(given)
	if !ok {
		return invalidField("name")
	}
	if name != string(c.group()) {
		return invalid(fmt.Sprintf("Field 'name' invalid : %s does not match %s", c.group(), name))
	}
	return nil
}

// nextName reads the name of the next group, which null and an empty text say that there is not.
func nextName(given json.RawMessage) (string, error) {
	name, ok := text(given)
	if !ok && string(given) != "null" || name != "" && !validName(name) {
		return "", invalidField("next_group_name")
	}
	if name == reservedGroup {
		return "", invalid("Field 'next_group_name' invalid : " + reservedGroup + " is reserved")
	}
	return name, nil
}

// deleteGroup answers with the group as it was. Its policies are not enforced any more in
// its location; the documents stay.
func deleteGroup(c *call) (*reply, error) {
	g, err := c.library.RemoveGroup(c.context, c.group())
	if err != nil {
		return nil, orMissing(err, c.noGroup())
	}
	return &reply{status: http.StatusOK, value: c.document(g)}, nil
}

// listActive is the part of getGroup that RFC-042 has a path of its own for.
func listActive(c *call) (*reply, error) {
	g, err := c.library.Group(c.context, c.group())
	if err != nil {
		return nil, orMissing(err, c.noGroup())
	}
	return &reply{status: http.StatusOK, value: activeSet(g)}, nil
}

// listNodes is {NODE:URI}; the URI is that of the node in the other API.
func listNodes(c *call) (*reply, error) {
	policy := c.query.Get("policy_name")
	if c.query.Has("policy_name") && !validName(policy) {
		return nil, invalidField("policy_name")
	}
	nodes, err := c.library.Nodes(c.context, c.group(), authz.PolicyID(policy))
	if err != nil {
		return nil, orMissing(err, c.noGroup())
	}
	out := make(map[string]string)
	for _, n := range nodes {
		out[n] = c.origin + "/v1/" + c.library.NodeName(c.group(), n)
	}
	return &reply{status: http.StatusOK, value: out}, nil
}

// promote makes what is active in a group active in its next one, in one step or not at
// all. The group is read first, for an error that says what is missing: the group, its
// next one, or a policy in it.
func promote(c *call) (*reply, error) {
	named, malformed := c.promoted()
	if err := c.mayPromote(named, malformed != nil); err != nil {
		return nil, err
	}
	if malformed != nil {
		return nil, malformed
	}
	g, err := c.library.Group(c.context, c.group())
	if err != nil {
		return nil, orMissing(err, c.noGroup())
	}
	if g.Next == "" {
		return nil, invalid(fmt.Sprintf("policy_group '%s' has no next_group_name: PUT it first", c.group()))
	}
	next, err := c.library.Promote(c.context, c.group(), named, c.noOp(), c.promotable)
	if err != nil {
		return nil, orMissing(orNoOp(leadTo.refused(err), g.Next, authz.PolicyID(missing(err))), fmt.Sprintf("Cannot load policy %s in policy group %s", missing(err), c.group()))
	}
	return &reply{status: http.StatusOK, value: c.document(next)}, nil
}

// promoted reads policy_names, or nil for all policies, if the body leaves them out. It
// refuses other fields, and null: a mistyped field must not promote everything.
func (c *call) promoted() ([]authz.PolicyID, error) {
	if len(c.body) == 0 {
		return nil, nil
	}
	const form = `Field 'policy_names' invalid : the body is {"policy_names":["NAME"]}, or {} for all policies`
	fields, err := members(c.body)
	switch {
	case err != nil || len(fields) > 1:
		return nil, invalid(form)
	case len(fields) == 0:
		return nil, nil
	}
	var names []*string
	if err := json.Unmarshal(fields[0].value, &names); err != nil || names == nil || fields[0].name != "policy_names" {
		return nil, invalid(form)
	}
	if len(names) == 0 {
		return nil, invalid("Field 'policy_names' invalid : it names none; leave it out to promote all")
	}
	policies := make([]authz.PolicyID, len(names))
	for i, name := range names {
		if name == nil || !validName(*name) {
			return nil, invalidField("policy_names")
		}
		policies[i] = authz.PolicyID(*name)
	}
	return policies, nil
}

// noGroup is the text of Chef's server.
func (c *call) noGroup() string { return fmt.Sprintf("policy_group '%s' not found", c.group()) }

package policyfile

import (
	"net/url"
	"strings"

	"understudy/admin/access"
)

// need is one permission that a route needs.
type need struct {
	// chef is the permission as RFC-042 and Chef's server name it: create, read, update,
	// delete or grant. To list is to read a container.
	chef string
	// of is what it is about in Chef's terms.
	of object
	// permission is ours, and on is the resource below the project on which it is asked. A
	// segment with a colon is a name in the path, or one that the call finds out: next is
	// the group that a promotion is to, each a policy that it promotes, active a group in
	// which the policy is active.
	permission access.Permission
	on         string
}

// object is what has an access control list in Chef.
type object string

const (
	group     object = "the policy group"
	groups    object = "the container policy_groups"
	name      object = "the policy name"
	names     object = "the container policies"
	nodes     object = "the container nodes"
	artifacts object = "the container cookbook_artifacts"
)

// Resources below a project. The name of a policy, in whatever group, is a policy of the
// reserved location, where its locks are: it is never live there, but may have bindings. The
// container of the names is that location, and the container of the groups is the project.
const (
	onProject     = ""
	onGroup       = "locations/:group"
	onGroupPolicy = onGroup + "/policies/:policy"
	onNext        = "locations/:next"
	onActive      = "locations/:active/policies/:policy"
	onNames       = "locations/" + reservedGroup
	onName        = onNames + "/policies/:policy"
	onEach        = onNames + "/policies/:each"
)

// leadTo is what a group with another next group needs, which admin asks for: it alone knows
// what the next group was.
var leadTo = need{"update", group, access.PoliciesPromote, onNext}

// needs :: method and path of a route → all that it needs (RFC-042, Authorization). To
// create something needs what it needs to change it, as UpdatePolicy does with allow_missing:
// so whether it is there decides nothing about who may, and its absence is not given away.
// Revisions have no permissions of their own. A route that is not here is refused.
var needs = map[string][]need{
	"GET /policies":                                {{"read", names, access.RevisionsList, onNames}},
	"GET /policies/:policy":                        {{"read", name, access.RevisionsList, onName}},
	"GET /policies/:policy/revisions":              {{"read", name, access.RevisionsList, onName}},
	"POST /policies/:policy/revisions":             {{"create", name, access.RevisionsCreate, onName}},
	"GET /policies/:policy/revisions/:revision":    {{"read", name, access.RevisionsGet, onName}},
	"DELETE /policies/:policy/revisions/:revision": {{"delete", name, access.RevisionsDelete, onName}},
	"GET /policies/:policy/revisions/:revision/policy_groups": {
		{"read", name, access.RevisionsGet, onName}, {"read", groups, access.PoliciesList, onProject},
	},
	"DELETE /policies/:policy": {
		{"delete", name, access.RevisionsDelete, onName}, {"delete", group, access.PoliciesDelete, onActive},
	},

	"GET /policy_groups": {{"read", groups, access.PoliciesList, onProject}},
	"GET /policy_groups/:group": {
		{"read", group, access.PoliciesList, onGroup}, {"read", group, access.ConfigGet, onGroup},
	},
	"PUT /policy_groups/:group": {{"update", group, access.ConfigUpdate, onGroup}, leadTo},
	"DELETE /policy_groups/:group": {
		{"delete", group, access.PoliciesDelete, onGroup}, {"delete", group, access.ConfigUpdate, onGroup},
	},
	"GET /policy_groups/:group/nodes": {
		{"read", group, access.PoliciesList, onGroup}, {"read", nodes, access.NodesList, onGroup},
	},
	"POST /policy_groups/:group/promote": {
		{"update", group, access.PoliciesPromote, onGroup}, {"update", group, access.PoliciesPromote, onNext},
		{"update", name, access.PoliciesPromote, onEach},
	},
	"GET /policy_groups/:group/policies": {{"read", group, access.PoliciesList, onGroup}},
	"GET /policy_groups/:group/policies/:policy": {
		{"read", group, access.PoliciesGet, onGroupPolicy}, {"read", name, access.RevisionsGet, onName},
	},
	"PUT /policy_groups/:group/policies/:policy": {
		{"update", group, access.PoliciesUpdate, onGroupPolicy}, {"update", name, access.RevisionsCreate, onName},
	},
	"POST /policy_groups/:group/policies/:policy": {{"update", group, access.PoliciesUpdate, onGroupPolicy}},
	"DELETE /policy_groups/:group/policies/:policy": {
		{"delete", group, access.PoliciesDelete, onGroupPolicy}, {"delete", name, access.RevisionsDelete, onName},
	},

	"GET /policies/:policy/_acl":                 {{"grant", name, access.PoliciesGetIAMPolicy, onName}},
	"PUT /policies/:policy/_acl/:permission":     {{"grant", name, access.PoliciesSetIAMPolicy, onName}},
	"GET /policy_groups/:group/_acl":             {{"grant", group, access.LocationsGetIAMPolicy, onGroup}},
	"PUT /policy_groups/:group/_acl/:permission": {{"grant", group, access.LocationsSetIAMPolicy, onGroup}},
	"GET /containers/policies/_acl":              {{"grant", names, access.LocationsGetIAMPolicy, onNames}},
	"PUT /containers/policies/_acl/:permission":  {{"grant", names, access.LocationsSetIAMPolicy, onNames}},
	"GET /containers/policy_groups/_acl":         {{"grant", groups, access.ProjectsGetIAMPolicy, onProject}},
	"PUT /containers/policy_groups/_acl/:permission": {
		{"grant", groups, access.ProjectsSetIAMPolicy, onProject},
	},
	// knife asks these before it changes an access control list. They say nothing that a
	// principal may not know.
	"GET /clients/:actor": {},
	"GET /groups/:actor":  {},

	"GET /cookbook_artifacts":                          {{"read", artifacts, access.RevisionsList, onNames}},
	"GET /cookbook_artifacts/:cookbook":                {{"read", artifacts, access.RevisionsList, onNames}},
	"GET /cookbook_artifacts/:cookbook/:identifier":    {{"read", artifacts, access.RevisionsGet, onNames}},
	"PUT /cookbook_artifacts/:cookbook/:identifier":    {{"update", artifacts, access.RevisionsCreate, onNames}},
	"DELETE /cookbook_artifacts/:cookbook/:identifier": {{"delete", artifacts, access.RevisionsDelete, onNames}},
	"POST /sandboxes":                                  {{"create", artifacts, access.RevisionsCreate, onNames}},
	"PUT /sandboxes/:sandbox":                          {{"update", artifacts, access.RevisionsCreate, onNames}},
}

// has reports whether the resource depends on a variable.
func (n need) has(variable string) bool {
	return strings.Contains(n.on+"/", "/"+variable+"/")
}

// resource returns the name of the resource, and false as long as one of its variables has
// no value. Values are escaped: a malformed one is one segment of a name, below which
// nothing can be granted, and never the name of another resource.
func (n need) resource(project string, values map[string]string) (string, bool) {
	segments := []string{"projects", url.PathEscape(project)}
	if n.on == onProject {
		return strings.Join(segments, "/"), true
	}
	for s := range strings.SplitSeq(n.on, "/") {
		if strings.HasPrefix(s, ":") {
			value, known := values[s]
			if !known {
				return "", false
			}
			s = url.PathEscape(value)
		}
		segments = append(segments, s)
	}
	return strings.Join(segments, "/"), true
}

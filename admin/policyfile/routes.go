package policyfile

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"understudy/admin/aip"
	"understudy/admin/library"
	"understudy/admin/policyfile/signature"
	"understudy/authz"
)

// call is one request, routed and read.
type call struct {
	context context.Context
	library *library.Library
	format  *format
	// origin is the scheme and the host, base the origin with the organization.
	origin, base string
	parameters   map[string]string
	query        url.Values
	body         []byte
	permissions  *permissions
	iam          IAM
	keys         *signature.Keyring
}

func (c *call) group() library.GroupID       { return library.GroupID(c.parameters[":group"]) }
func (c *call) policy() authz.PolicyID       { return authz.PolicyID(c.parameters[":policy"]) }
func (c *call) revision() library.RevisionID { return library.RevisionID(c.parameters[":revision"]) }

// uri is an absolute path with the organization, since clients follow the URIs of lists
// as they are.
func (c *call) uri(segments ...string) string {
	uri := c.base
	for _, s := range segments {
		uri += "/" + url.PathEscape(s)
	}
	return uri
}

// handler runs a call whose names, query and body have been checked. Its error becomes a
// Problem.
type handler func(*call) (*reply, error)

// routes :: path, in which a segment with a colon is a name → method → handler.
var routes = map[string]map[string]handler{
	"/policies":                                           {"GET": listPolicies},
	"/policies/:policy":                                   {"GET": getPolicy, "DELETE": deletePolicy},
	"/policies/:policy/_acl":                              {"GET": getPolicyACL},
	"/policies/:policy/_acl/:permission":                  {"PUT": putPolicyACL},
	"/policies/:policy/revisions":                         {"GET": getPolicy, "POST": createRevision},
	"/policies/:policy/revisions/:revision":               {"GET": getRevision, "DELETE": deleteRevision},
	"/policies/:policy/revisions/:revision/policy_groups": {"GET": listGroupsOfRevision},
	"/policy_groups":                                      {"GET": listGroups},
	"/policy_groups/:group":                               {"GET": getGroup, "PUT": putGroup, "DELETE": deleteGroup},
	"/policy_groups/:group/_acl":                          {"GET": getGroupACL},
	"/policy_groups/:group/_acl/:permission":              {"PUT": putGroupACL},
	"/policy_groups/:group/nodes":                         {"GET": listNodes},
	"/policy_groups/:group/promote":                       {"POST": promote},
	"/policy_groups/:group/policies":                      {"GET": listActive},
	"/policy_groups/:group/policies/:policy": {
		"GET": getActive, "PUT": putActive, "POST": activate, "DELETE": deactivate,
	},
	"/cookbook_artifacts":                       {"GET": listArtifacts},
	"/cookbook_artifacts/:cookbook":             {"GET": listArtifacts},
	"/cookbook_artifacts/:cookbook/:identifier": {"GET": getArtifact, "PUT": putArtifact, "DELETE": deleteArtifact},
	"/sandboxes":                                 {"POST": createSandbox},
	"/sandboxes/:sandbox":                        {"PUT": commitSandbox},
	"/containers/policies/_acl":                  {"GET": getContainerACL},
	"/containers/policies/_acl/:permission":      {"PUT": putContainerACL},
	"/containers/policy_groups/_acl":             {"GET": getContainerACL},
	"/containers/policy_groups/_acl/:permission": {"PUT": putContainerACL},
	"/clients/:actor":                            {"GET": getClient},
	"/groups/:actor":                             {"GET": getGroupOfActors},
}

// routeOfManifests is the route of the one body that may be larger than all others.
const routeOfManifests = "PUT /cookbook_artifacts/:cookbook/:identifier"

// taken :: method and path of a route → the query parameters that the call takes. All
// others are refused: a parameter of the other API, such as validateOnly, would change
// nothing here, and the call would be made for real.
var taken = map[string][]string{
	"PUT /policy_groups/:group/policies/:policy":  {AllowNoOp},
	"POST /policy_groups/:group/policies/:policy": {AllowNoOp},
	"POST /policy_groups/:group/promote":          {AllowNoOp},
	"GET /policy_groups/:group/nodes":             {"policy_name"},
	// knife sends this. The answer has actors in any case, which it takes.
	"GET /policies/:policy/_acl":         {"detail"},
	"GET /policy_groups/:group/_acl":     {"detail"},
	"GET /containers/policies/_acl":      {"detail"},
	"GET /containers/policy_groups/_acl": {"detail"},
	// chef-cli sends these two. All versions are listed anyway, and what is named by its
	// content has nothing to overwrite.
	"GET /cookbook_artifacts":           {"num_versions"},
	"GET /cookbook_artifacts/:cookbook": {"num_versions"},
	routeOfManifests:                    {"force"},
}

// checkQuery refuses the parameters of a query that a call does not take, and those that
// are given twice, of which one would count by chance.
func checkQuery(route string, query url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case !slices.Contains(taken[route], name):
			return invalid("Query parameter '" + aip.Shown(name) + "' is unknown : " + takes(taken[route]) + "; nothing was changed")
		case len(query[name]) > 1:
			return invalid("Query parameter '" + name + "' is given more than once : send it once")
		}
	}
	return nil
}

// takes says which parameters a call has, for anyone who mistyped one.
func takes(names []string) string {
	if len(names) == 0 {
		return "the call takes none, leave it out"
	}
	return "the call takes " + strings.Join(names, ", ")
}

// served are the first segments of the routes, and absent those of the rest of Chef's
// API: their errors have Chef's shape, too.
var (
	served = []string{"policies", "policy_groups", "cookbook_artifacts", "sandboxes", "containers", "clients", "groups", "organizations"}
	absent = []string{
		"controls", "cookbooks", "data", "environments", "nodes", "principals",
		"required_recipe", "roles", "search", "universe", "users",
	}
)

// chefs reports whether a path is one of Chef's API.
func chefs(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains(served, first) || slices.Contains(absent, first)
}

// found is a route with the names in the path.
type found struct {
	run        handler
	parameters map[string]string
	// route is the method and the path of the route.
	route string
}

// notAllowed is the error of a method that a path does not have.
type notAllowed struct{ methods string }

// Error is for logs; callers get the Problem of Unwrap, and the header Allow.
func (e *notAllowed) Error() string { return "the method is not allowed" }

// Unwrap is the error for callers.
func (e *notAllowed) Unwrap() error {
	return problem(http.StatusMethodNotAllowed, "the path does not have this method; it has "+e.methods)
}

// find returns the route of a path as it was sent, with names that are not checked yet. One
// slash at its end is left out.
func find(method, path string) (found, error) {
	segments := strings.Split(strings.TrimSuffix(path, "/"), "/")
	for template, methods := range routes {
		parameters, ok := match(strings.Split(template, "/"), segments)
		if !ok {
			continue
		}
		if method == http.MethodHead {
			method = http.MethodGet
		}
		run, ok := methods[method]
		if !ok {
			return found{}, &notAllowed{strings.Join(slices.Sorted(maps.Keys(methods)), ", ")}
		}
		return found{run, parameters, method + " " + template}, nil
	}
	return found{}, problem(http.StatusNotFound, "there is nothing at this path: of Chef's API this server has "+
		"policies, policy_groups, and what a push asks of cookbook_artifacts and sandboxes")
}

// match compares the segments of a path with a template. No path has two.
func match(template, segments []string) (map[string]string, bool) {
	if len(template) != len(segments) {
		return nil, false
	}
	parameters := make(map[string]string)
	for i, want := range template {
		segment, err := url.PathUnescape(segments[i])
		if err != nil || segment == "" && i > 0 {
			return nil, false
		}
		if strings.HasPrefix(want, ":") {
			parameters[want] = segment
		} else if segment != want {
			return nil, false
		}
	}
	return parameters, true
}

// checkNames holds the names in a path to the grammar of those in a document. A name that no
// artifact can have is that of none, as on Chef's server; it is an error only where one is put.
func checkNames(match found) error {
	for parameter, name := range match.parameters {
		if g, ok := grammars[parameter]; ok && !g.valid(name) {
			return g.refused(match.route, name)
		}
	}
	if match.parameters[":group"] == reservedGroup {
		return invalid("Field 'policy_group' invalid : " + reservedGroup + " is reserved")
	}
	return nil
}

// grammar is that of a name in a path.
type grammar struct {
	valid   func(name string) bool
	refused func(route, name string) error
}

// grammars :: name in a template → its grammar. The handlers check a :permission.
var grammars = map[string]grammar{
	":actor":      {signature.ValidUser, refusedAs("name")},
	":group":      {validName, refusedAs("policy_group")},
	":policy":     {validName, refusedAs("name")},
	":revision":   {validRevision, refusedAs("revision_id")},
	":cookbook":   {func(name string) bool { return cookbookGrammar.MatchString(name) && validName(name) }, noArtifactAs("name")},
	":identifier": {validName, noArtifactAs("identifier")},
	":sandbox": {sandboxGrammar.MatchString, func(_, name string) error {
		return problem(http.StatusNotFound, "No such sandbox '"+name+"'.")
	}},
}

// refusedAs is the error of a name that is no valid field of a document.
func refusedAs(field string) func(route, name string) error {
	return func(string, string) error { return invalidField(field) }
}

// noArtifactAs is the error of a name that no artifact can have.
func noArtifactAs(field string) func(route, name string) error {
	return func(route, _ string) error { return orNoArtifact(route, invalidField(field)) }
}

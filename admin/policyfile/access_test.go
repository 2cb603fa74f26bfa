package policyfile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/policyfile"
	"understudy/admin/policyfile/signature"
	"understudy/admin/policyfile/signature/signaturetest"
)

// caller is an Authenticator that takes everybody at their word: the header Caller.
type caller struct{}

func (caller) Authenticate(r *http.Request) (access.Principal, error) {
	name := r.Header.Get("Caller")
	if name == "" {
		return access.Principal{}, apierror.Unauthenticated("The request has no credentials.")
	}
	return access.Principal{Member: "token:" + name, Method: access.MethodToken}, nil
}

// grants is an Authorizer of exact permissions, which roles cannot express: what tester has
// on each resource by itself, and owner everywhere.
type grants map[string]bool

func (g grants) Authorize(ctx context.Context, p access.Permission, resource string) error {
	if access.FromContext(ctx).Member == "token:owner" || g[string(p)+" on "+resource] {
		return nil
	}
	return apierror.PermissionDenied(apierror.Permission(p), resource)
}

func (g grants) Permitted(ctx context.Context, resource string, asked []access.Permission) (out []access.Permission, err error) {
	for _, p := range asked {
		if g.Authorize(ctx, p, resource) == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// as is call of somebody.
func (s *server) as(who, method, path, body string) apiResponse {
	s.Helper()
	s.header = http.Header{"Caller": {who}}
	defer func() { s.header = nil }()
	return s.call(method, path, body)
}

// guarded is a server on which tester has grants, with the group dev, whose next is qa, and
// the policy web in it.
func guarded(t *testing.T, store stores, project string, g grants) *server {
	t.Helper()
	s := serveWith(t, store, policyfile.Config{Project: project, Authenticator: caller{}, Authorizer: g})
	web := seal(t, testLock("web"))
	for _, c := range [][3]string{
		{"PUT", "/policy_groups/dev", `{"name":"dev","next_group_name":"qa"}`}, {"PUT", "/policy_groups/dev/policies/web", web},
	} {
		if a := s.as("owner", c[0], c[1], c[2]); a.status/100 != 2 {
			t.Fatalf("%s %s: %d %s", c[0], c[1], a.status, a.body)
		}
	}
	return s
}

func testLock(name string) string {
	return `{"name":"` + name + `","run_list":[],"cookbook_locks":{}}`
}

// accessRow is a call and all that it needs, as "permission on the resource below the project".
type accessRow struct {
	id           string
	method, path string
	body         string
	needs        []string
	// status is that of a caller who has all of it.
	status int
	// missing is what Chef's text names.
	missing string
}

// accessRows are the rows of RFC-042's Authorization. $REV is the revision that is active, $WEB its lock,
// and $NEW the lock of a policy that is not there.
var accessRows = []accessRow{
	{"R-60", "GET", "/policy_groups", "", []string{"policies.list on "}, 200, "read"},
	{"R-61 a group that is not there", "PUT", "/policy_groups/new", `{"name":"new"}`, []string{"config.update on locations/new"}, 201, "update"},
	{"R-62 a group", "GET", "/policy_groups/dev", "", []string{"policies.list on locations/dev", "config.get on locations/dev"}, 200, "read"},
	{"R-62 a group that is not there", "GET", "/policy_groups/new", "", []string{"policies.list on locations/new", "config.get on locations/new"}, 404, "read"},
	{"R-62 its policies", "GET", "/policy_groups/dev/policies", "", []string{"policies.list on locations/dev"}, 200, "read"},
	{"R-63", "POST", "/policy_groups/dev/policies/web", `{"revision_id":"$REV"}`, []string{"policies.update on locations/dev/policies/web"}, 200, "update"},
	{"R-63 malformed", "POST", "/policy_groups/dev/policies/web", `{"revision_id":`, []string{"policies.update on locations/dev/policies/web"}, 400, "update"},
	{"R-63 unknown", "POST", "/policy_groups/dev/policies/web", `{"revision_id":"00"}`, []string{"policies.update on locations/dev/policies/web"}, 404, "update"},
	{"R-64", "POST", "/policy_groups/dev/promote", `{}`, []string{
		"policies.promote on locations/dev", "policies.promote on locations/qa", "policies.promote on locations/global/policies/web"}, 200, "update"},
	{"R-64 some", "POST", "/policy_groups/dev/promote", `{"policy_names":["web"]}`, []string{
		"policies.promote on locations/dev", "policies.promote on locations/qa", "policies.promote on locations/global/policies/web"}, 200, "update"},
	{"R-64 malformed", "POST", "/policy_groups/dev/promote", `{"policy_names":7}`, []string{
		"policies.promote on locations/dev", "policies.promote on locations/qa", "policies.promote on locations/global/policies/"}, 400, "update"},
	{"R-64 a group that is not there", "POST", "/policy_groups/new/promote", `{}`, []string{"policies.promote on locations/new"}, 404, "update"},
	{"R-65", "PUT", "/policy_groups/dev", `{"name":"dev"}`, []string{"config.update on locations/dev"}, 200, "update"},
	{"R-65 another next group", "PUT", "/policy_groups/dev", `{"name":"dev","next_group_name":"prod"}`, []string{
		"config.update on locations/dev", "policies.promote on locations/prod"}, 200, "update"},
	{"R-65 the same next group", "PUT", "/policy_groups/dev", `{"name":"dev","next_group_name":"qa"}`, []string{"config.update on locations/dev"}, 200, "update"},
	{"R-65 malformed", "PUT", "/policy_groups/dev", `{"x":1}`, []string{"config.update on locations/dev"}, 400, "update"},
	{"R-66", "GET", "/policy_groups/dev/nodes", "", []string{"policies.list on locations/dev", "nodes.list on locations/dev"}, 200, "read"},
	{"R-67", "DELETE", "/policy_groups/dev", "", []string{"policies.delete on locations/dev", "config.update on locations/dev"}, 200, "delete"},
	{"R-68", "POST", "/policies/new/revisions", "$NEW", []string{"revisions.create on locations/global/policies/new"}, 201, "create"},
	{"R-69", "POST", "/policies/web/revisions", "$WEB", []string{"revisions.create on locations/global/policies/web"}, 409, "create"},
	{"R-70", "GET", "/policies", "", []string{"revisions.list on locations/global"}, 200, "read"},
	{"R-71 revisions", "GET", "/policies/web/revisions", "", []string{"revisions.list on locations/global/policies/web"}, 200, "read"},
	{"R-71 as Chef's server has them", "GET", "/policies/web", "", []string{"revisions.list on locations/global/policies/web"}, 200, "read"},
	{"R-71 a revision", "GET", "/policies/web/revisions/$REV", "", []string{"revisions.get on locations/global/policies/web"}, 200, "read"},
	{"R-71 none", "GET", "/policies/web/revisions/00", "", []string{"revisions.get on locations/global/policies/web"}, 404, "read"},
	{"R-72 that is active", "DELETE", "/policies/web/revisions/$REV", "", []string{"revisions.delete on locations/global/policies/web"}, 409, "delete"},
	{"R-72 all", "DELETE", "/policies/web", "", []string{"revisions.delete on locations/global/policies/web", "policies.delete on locations/dev/policies/web"}, 200, "delete"},
	{"R-73", "GET", "/policy_groups/dev/policies/web", "", []string{"policies.get on locations/dev/policies/web", "revisions.get on locations/global/policies/web"}, 200, "read"},
	{"R-73 none", "GET", "/policy_groups/dev/policies/new", "", []string{"policies.get on locations/dev/policies/new", "revisions.get on locations/global/policies/new"}, 404, "read"},
	{"R-74", "PUT", "/policy_groups/dev/policies/web", "$WEB", []string{"policies.update on locations/dev/policies/web", "revisions.create on locations/global/policies/web"}, 200, "update"},
	{"R-74 all of it new", "PUT", "/policy_groups/new/policies/new", "$NEW", []string{"policies.update on locations/new/policies/new", "revisions.create on locations/global/policies/new"}, 201, "update"},
	{"R-74 malformed", "PUT", "/policy_groups/dev/policies/web", "{", []string{"policies.update on locations/dev/policies/web", "revisions.create on locations/global/policies/web"}, 400, "update"},
	{"R-74 taken out again", "DELETE", "/policy_groups/dev/policies/web", "", []string{"policies.delete on locations/dev/policies/web", "revisions.delete on locations/global/policies/web"}, 200, "delete"},
	{"R-75", "GET", "/policies/web/revisions/$REV/policy_groups", "", []string{"revisions.get on locations/global/policies/web", "policies.list on "}, 200, "read"},
	{"R-76 of a group", "GET", "/policy_groups/dev/_acl", "", []string{"locations.getIamPolicy on locations/dev"}, 200, "grant"},
	{"R-76 of a group that is not there", "GET", "/policy_groups/new/_acl", "", []string{"locations.getIamPolicy on locations/new"}, 404, "grant"},
	{"R-76 of a policy", "GET", "/policies/web/_acl?detail=granular", "", []string{"policies.getIamPolicy on locations/global/policies/web"}, 200, "grant"},
	{"R-76 of groups", "GET", "/containers/policy_groups/_acl", "", []string{"projects.getIamPolicy on "}, 200, "grant"},
	{"R-76 of policies", "GET", "/containers/policies/_acl", "", []string{"locations.getIamPolicy on locations/global"}, 200, "grant"},
	{"R-76 of a group, put", "PUT", "/policy_groups/dev/_acl/read", `{"read":{"actors":[],"groups":[]}}`, []string{"locations.setIamPolicy on locations/dev"}, 405, "grant"},
	{"R-76 of a policy, put", "PUT", "/policies/web/_acl/read", `{`, []string{"policies.setIamPolicy on locations/global/policies/web"}, 400, "grant"},
	{"R-76 of groups, put", "PUT", "/containers/policy_groups/_acl/read", `{}`, []string{"projects.setIamPolicy on "}, 405, "grant"},
	{"R-76 of policies, put", "PUT", "/containers/policies/_acl/read", `{}`, []string{"locations.setIamPolicy on locations/global"}, 405, "grant"},
	{"R-77 a group whose name is malformed", "GET", "/policy_groups/a%20b", "", []string{"policies.list on locations/a%20b", "config.get on locations/a%20b"}, 400, "read"},
	{"R-77 a parameter that is unknown", "GET", "/policy_groups/dev/policies?x=1", "", []string{"policies.list on locations/dev"}, 400, "read"},
	{"R-77 artifacts", "GET", "/cookbook_artifacts", "", []string{"revisions.list on locations/global"}, 200, "read"},
	{"R-77 an artifact", "GET", "/cookbook_artifacts/c/1", "", []string{"revisions.get on locations/global"}, 404, "read"},
	{"R-77 an artifact, put", "PUT", "/cookbook_artifacts/c/1", `{"name":"c","identifier":"1"}`, []string{"revisions.create on locations/global"}, 201, "update"},
	{"R-77 an artifact, deleted", "DELETE", "/cookbook_artifacts/c/1", "", []string{"revisions.delete on locations/global"}, 404, "delete"},
	{"R-77 a sandbox", "POST", "/sandboxes", `{"checksums":{}}`, []string{"revisions.create on locations/global"}, 201, "create"},
	{"R-77 a client", "GET", "/clients/alice", "", nil, 200, ""},
	{"R-77 a group of actors", "GET", "/groups/admins", "", nil, 200, ""},
}

// Each call with all that it needs, and with all but one of it: then it is 403 in Chef's
// words, and nothing has changed.
func TestAccess(t *testing.T) {
	b := backends(t)[1]
	store := b.open(t)
	web, fresh := seal(t, testLock("web")), seal(t, testLock("new"))
	for i, row := range accessRows {
		t.Run(row.id, func(t *testing.T) {
			g := make(grants)
			s := guarded(t, store, fmt.Sprintf("p-access-%d", i), g)
			fill := strings.NewReplacer("$REV", idOf(t, web), "$WEB", web, "$NEW", fresh)
			path, body := fill.Replace(row.path), fill.Replace(row.body)
			grant := func(need string) string {
				permission, on, _ := strings.Cut(need, " on ")
				return "understudy." + permission + " on " + strings.TrimSuffix("projects/"+s.project+"/"+on, "/")
			}
			state := func() string {
				return string(s.as("owner", "GET", "/policy_groups", "").body) + string(s.as("owner", "GET", "/policies", "").body) +
					string(s.as("owner", "GET", "/policy_groups/dev", "").body) + string(s.as("owner", "GET", "/cookbook_artifacts", "").body)
			}
			before := state()
			for _, without := range row.needs {
				clear(g)
				for _, need := range row.needs {
					if need != without {
						g[grant(need)] = true
						if strings.HasSuffix(need, "/") { // a name that is empty
							g[grant(need)+"/"] = true
						}
					}
				}
				a := s.as("tester", row.method, path, body)
				if a.status != 403 || !strings.HasPrefix(string(a.body), `{"error":["missing `+row.missing+` permission","Permission 'understudy.`) {
					t.Errorf("without %s: got %d %s", without, a.status, a.body)
				}
			}
			if after := state(); after != before {
				t.Errorf("what was refused has changed something:\n%s\n%s", before, after)
			}
			clear(g)
			for _, need := range row.needs {
				g[grant(need)] = true
				if strings.HasSuffix(need, "/") {
					g[grant(need)+"/"] = true
				}
			}
			if a := s.as("tester", row.method, path, body); a.status != row.status {
				t.Errorf("with all that it needs: got %d %s, want %d", a.status, a.body, row.status)
			}
			if a := s.as("", row.method, path, body); a.status != 401 || a.header.Get("WWW-Authenticate") != access.Challenge {
				t.Errorf("without credentials: got %d %v", a.status, a.header)
			}
		})
	}
}

// What is missing and what is forbidden are one answer.
func TestR77ForbiddenIsLikeMissing(t *testing.T) {
	s := guarded(t, backends(t)[1].open(t), "p-alike", grants{})
	for _, path := range []string{"/policy_groups/%s", "/policy_groups/%s/policies/x", "/policy_groups/%s/_acl", "/policy_groups/%s/nodes"} {
		there, absent := s.as("tester", "GET", fmt.Sprintf(path, "dev"), ""), s.as("tester", "GET", fmt.Sprintf(path, "vid"), "")
		if string(there.body) != strings.ReplaceAll(string(absent.body), "vid", "dev") || there.status != 403 {
			t.Errorf("%s: %s and %s", path, there.body, absent.body)
		}
	}
	var e struct{ Error []string }
	if err := json.Unmarshal(s.as("tester", "PATCH", "/policies", "").body, &e); err != nil || len(e.Error) != 1 {
		t.Errorf("got %v, %v", e, err)
	}
}

// Who has a key is said to who may read the bindings of the project, and to nobody else: to them
// every name is one.
func TestR77WhoHasAKey(t *testing.T) {
	keys, err := signature.OpenKeyring(map[string]string{"alice": signaturetest.PublicFile(t, signaturetest.Key())}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := make(grants)
	s := serveWith(t, backends(t)[1].open(t), policyfile.Config{Project: "p-keys", Keys: keys, Authorizer: g})
	ask := func(name string) apiResponse {
		return s.send(signaturetest.Request{Version: "1.3", User: "alice", Method: "GET", Path: "/clients/" + name, At: time.Now()}, nil)
	}
	there, absent := ask("alice"), ask("mallo")
	if there.status != 200 || absent.status != 200 || strings.ReplaceAll(string(absent.body), "mallo", "alice") != string(there.body) {
		t.Errorf("a name with a key: %d %s; one without: %d %s", there.status, there.body, absent.status, absent.body)
	}
	g["understudy.projects.getIamPolicy on projects/p-keys"] = true
	there, absent = ask("alice"), ask("mallo")
	if there.status != 200 || absent.status != 404 {
		t.Errorf("who may know gets %d for a name with a key, and %d for one without", there.status, absent.status)
	}
}

package identity

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/admin/access"
)

// TestDeclaredBindings: YAML and JSON say the same, and each member stands once.
func TestDeclaredBindings(t *testing.T) {
	t.Parallel()
	want := []declared{
		{"projects/shop", []bound{{access.RoleOwner, "group:https://login.example.com#platform"}}},
		{"projects/shop/locations/dev", nil},
		{"projects/shop/locations/prod/policies/web", []bound{{access.RoleViewer, "allAuthenticated"}, {access.RoleViewer, "cert:Ann Smith"}, {access.RoleCommitter, "token:ci"}}},
	}
	for name, text := range map[string]string{
		"YAML": `# who may do what
projects/shop:
  owner: [group:https://login.example.com#platform]
projects/shop/locations/dev:
projects/shop/locations/prod/policies/web:
  committer:
  - token:ci
  roles/understudy.viewer: &all
  - cert:Ann Smith
  - allAuthenticated
  - allAuthenticated
  experimenter:
`,
		"JSON": "{\n\t\"projects/shop\": {\"owner\": [\"group:https://login.example.com#platform\"]},\n\t\"projects/shop/locations/dev\": {},\n" +
			"\t\"projects/shop/locations/prod/policies/web\": {\"viewer\": [\"allAuthenticated\", \"cert:Ann Smith\"], \"committer\": [\"token:ci\"]}\n}",
	} {
		got, err := readDeclared([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(declared{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestMistakesOfDeclaredBindings(t *testing.T) {
	t.Parallel()
	const project = "projects/shop:\n"
	for text, want := range map[string]string{
		"":                                "it is empty",
		"# nothing\n":                     "it is empty",
		"{}":                              "it names no resource",
		"- a":                             "line 1: it has resource names",
		"a: [":                            "neither YAML nor JSON",
		"projects/a:\n---\nprojects/b:\n": "more than one document",
		"web: {}":                         "line 1: it is the whole name of a project, a location or a policy",
		"projects: {}":                    "line 1: it is the whole name",
		"projects/a/locations/-: {}":      "line 1: it is the whole name",
		"projects/a/locations/b/policies/c/experiments/d: {}": "line 1: it is the whole name",
		"projects/a/policies/c: {}":                           "line 1: it is the whole name",
		"projects/a: {}\nprojects/a: {}":                      `line 2: "projects/a" is there twice`,
		project + "  viewr: []":                               `line 2: there is no role "viewr"; the roles are dataEditor, viewer,`,
		project + "  viewer: []\n  viewer: []":                `line 3: "viewer" is there twice`,
		project + "  viewer: token:ci":                        "line 2: a role has a list of members",
		project + "  viewer: [7]":                             "line 2: a member is a text",
		project + "  viewer: [[token:ci]]":                    "line 2: a member is a text",
		project + "  viewer:\n  - ann":                        "line 3: the member: it is one of spiffe://",
		project + "  viewer: [group:ops]":                     "line 2: the member: it is group:ISSUER#NAME",
		project + "- viewer":                                  "line 2: it has roles, such as viewer",
		"? [a]\n: {}":                                         "line 1: it has resource names",
		"x: &a {<<: *a}":                                      "line 1: it is the whole name",
	} {
		if _, err := readDeclared([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q", text, err, want)
		}
	}
}

// FuzzDeclared: whatever a file says, what is read of it are members with roles of resources.
func FuzzDeclared(f *testing.F) {
	f.Add([]byte("projects/shop:\n  owner: [group:https://login.example.com#platform]\n"))
	f.Add([]byte("projects/a: &x {viewer: [token:a]}\nprojects/b: *x\n"))
	f.Add([]byte("{\"projects/a\":{\"viewer\":[\"token:a\"]}}"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := readDeclared(text)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, d := range all {
			if checkBoundResource(d.resource) != nil || seen[d.resource] {
				t.Errorf("%q is a resource, once more %v", d.resource, seen[d.resource])
			}
			seen[d.resource] = true
			for _, b := range d.bindings {
				if access.CheckMember(b.Member) != nil || b.Role.Permissions() == nil {
					t.Errorf("%q is bound: %+v", d.resource, b)
				}
			}
		}
	})
}

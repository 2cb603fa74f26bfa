package rest

import (
	"slices"
	"strings"
	"testing"

	"understudy/admin/access"
)

// TestWherePermissionsApply: a permission applies to the types of resources on which a call of the
// API asks for it, and to what they are in.
func TestWherePermissionsApply(t *testing.T) {
	// What calls of the Policyfile API ask of a policy, and what a role on a policy gives of an
	// operation about it.
	asked := map[access.Permission]int{access.RevisionsCreate: 6, access.RevisionsDelete: 6, access.PoliciesPromote: 6, access.OperationsGet: 6}
	for _, r := range apiRoutes {
		if r.rpc == "" {
			continue
		}
		need, _ := access.NeedOf(r.rpc)
		name := r.segments[1 : 1+r.named]
		if p := need.On(strings.Join(name, "/")); p != "" {
			asked[p] = max(asked[p], len(name)-2*count(name, "operations", "nodes")-count(name, "config"))
		}
	}
	for _, p := range access.RoleOwner.Permissions() {
		for size, resource := range map[int]string{2: "projects/p", 4: "projects/p/locations/l", 6: "projects/p/locations/l/policies/x"} {
			if got, want := p.AppliesTo(resource), size <= asked[p]; got != want {
				t.Errorf("%s applies to %s: %v, want %v", p, resource, got, want)
			}
		}
	}
}

// count returns how many segments are one of some words.
func count(segments []string, words ...string) (n int) {
	for _, s := range segments {
		if slices.Contains(words, s) {
			n++
		}
	}
	return n
}

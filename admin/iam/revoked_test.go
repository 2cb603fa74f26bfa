package iam_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/access"
	"understudy/admin/iam"
)

// names are the members that are revoked.
type names map[string]bool

// Revoked implements access.Revocations.
func (n names) Revoked(p access.Principal) bool { return n[p.Member] }

// Anyone who is revoked may nothing from then on, owners and who is bound alike, in a call that has
// begun before too.
func TestRevokedPrincipalsMayNothing(t *testing.T) {
	revoked := names{}
	a, err := iam.NewAuthorizer(iam.AuthorizerConfig{Store: newStore(t), Owners: []string{"token:root", "token:other"}, Revoked: revoked})
	if err != nil {
		t.Fatal(err)
	}
	root := access.NewContext(t.Context(), access.Principal{Member: "token:root"})
	if err := a.Authorize(root, access.PoliciesDelete, "projects/p/locations/l/policies/web"); err != nil {
		t.Errorf("before: %v", err)
	}
	revoked["token:root"] = true
	if err := a.Authorize(root, access.PoliciesDelete, "projects/p/locations/l/policies/web"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("after: %v", err)
	}
	if granted, err := a.Permitted(root, "projects/p", []access.Permission{access.ProjectsGetIAMPolicy}); err != nil || granted != nil {
		t.Errorf("after: %v, %v", granted, err)
	}
	other := access.NewContext(t.Context(), access.Principal{Member: "token:other"})
	if err := a.Authorize(other, access.PoliciesDelete, "projects/p/locations/l/policies/web"); err != nil {
		t.Errorf("another owner: %v", err)
	}
}

package admin_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin"
	adminpb "understudy/admin/v1"
)

// TestReservedLocation: nothing becomes live where nothing is enforced, and where the
// Policyfile API would not see it.
func TestReservedLocation(t *testing.T) {
	server, err := admin.NewServer(admin.Config{Store: newBoltStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	const parent = "projects/default/locations/global"
	for name, call := range map[string]func() error{
		"create": func() error {
			_, err := server.CreatePolicy(t.Context(), &adminpb.CreatePolicyRequest{Parent: parent, PolicyId: "web", Policy: &adminpb.Policy{}})
			return err
		},
		"create by update": func() error {
			_, err := server.UpdatePolicy(t.Context(), &adminpb.UpdatePolicyRequest{
				AllowMissing: true, Policy: &adminpb.Policy{Name: parent + "/policies/web"},
			})
			return err
		},
		"next location": func() error {
			_, err := server.UpdateConfig(t.Context(), &adminpb.UpdateConfigRequest{
				Config: &adminpb.Config{Name: "projects/default/locations/dev/config", NextLocation: parent},
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := call(); status.Code(err) != codes.InvalidArgument {
				t.Errorf("the answer is %v, want INVALID_ARGUMENT", err)
			}
		})
	}
}

// TestChainIsBounded: a change of a location's configuration reads the chain that begins
// there, so no chain may be arbitrarily long.
func TestChainIsBounded(t *testing.T) {
	server, err := admin.NewServer(admin.Config{Store: newBoltStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	location := func(i int) string { return fmt.Sprintf("projects/default/locations/l%d", i) }
	link := func(i int) error {
		_, err := server.UpdateConfig(t.Context(), &adminpb.UpdateConfigRequest{
			Config: &adminpb.Config{Name: location(i) + "/config", NextLocation: location(i - 1)},
		})
		return err
	}
	const most = 100
	for i := 1; i < most; i++ {
		if err := link(i); err != nil {
			t.Fatalf("a chain of %d: %v", i+1, err)
		}
	}
	if err := link(most); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "100") {
		t.Errorf("a chain of %d is answered by %v, want INVALID_ARGUMENT", most+1, err)
	}
}

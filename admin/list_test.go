package admin_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
)

// TestPagesAreBounded lists revisions that together are more than a client of gRPC takes
// in one message: each page is less, and all of them together are all.
func TestPagesAreBounded(t *testing.T) {
	server, err := admin.NewServer(admin.Config{Store: newBoltStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	const location, revisions = "projects/default/locations/local", 7
	for i := range revisions {
		text := fmt.Sprint(i) + strings.Repeat("x", 1<<20)
		if _, err := server.UpdatePolicy(t.Context(), &adminpb.UpdatePolicyRequest{AllowMissing: true, Policy: &adminpb.Policy{
			Name: location + "/policies/web",
			Data: &structpb.Struct{Fields: map[string]*structpb.Value{"text": structpb.NewStringValue(text)}},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[string]bool)
	pages := 0
	for token := ""; ; {
		page, err := server.ListPolicyRevisions(t.Context(), &adminpb.ListPolicyRevisionsRequest{
			Parent: location + "/policies/web", PageSize: 1000, PageToken: token, View: adminpb.PolicyView_POLICY_VIEW_FULL,
		})
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(page); size > 4<<20 {
			t.Errorf("a page has %d bytes", size)
		}
		for _, r := range page.PolicyRevisions {
			seen[r.Name] = true
		}
		pages++
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	if len(seen) != revisions || pages < 3 {
		t.Errorf("%d pages list %d revisions, want %d", pages, len(seen), revisions)
	}
}

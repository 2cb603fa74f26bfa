package admin_test

import (
	"path"
	"strings"
	"testing"

	adminpb "understudy/admin/v1"
)

// TestPackageIsFolder holds the proto's package against its path (AIP-191): clients in any
// language import one and the same path.
func TestPackageIsFolder(t *testing.T) {
	file := adminpb.File_understudy_admin_v1_admin_proto
	folder := path.Dir(file.Path())
	if got := strings.ReplaceAll(string(file.Package()), ".", "/"); got != folder {
		t.Errorf("the package is %s, the folder is %s", got, folder)
	}
	if folder != "understudy/admin/v1" {
		t.Errorf("the folder is %s, want understudy/admin/v1", folder)
	}
}

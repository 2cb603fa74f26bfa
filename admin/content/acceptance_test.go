package content_test

import (
	"strings"
	"testing"

	"understudy/admin/content"
	adminpb "understudy/admin/v1"
)

// TestReasons: others read why something was accepted, so a yes is none, wherever it comes from.
func TestReasons(t *testing.T) {
	for reason, ok := range map[string]bool{
		"a scanner: it never had access": true, "as planned": true, "fine": true, "OPS-4711": true, "7": true, "夜勤": true, "yes, the night shift": true,
		"": false, "  ": false, "y": false, "YES!": false, " yes. ": false, "Ok": false, "okay": false, "no": false, "?": false, "...": false,
	} {
		err := content.CheckAcceptance("acceptance", &adminpb.Acceptance{
			Target: &adminpb.Acceptance_ItemId{ItemId: strings.Repeat("0", 20)}, ExperimentEtag: "e", Reason: reason,
		})
		if (err == nil) != ok {
			t.Errorf("%q: got %v, want that it is a reason: %t", reason, err, ok)
		}
		if err != nil && !strings.Contains(err.Error(), "acceptance.reason") {
			t.Errorf("%q: the error does not name the field: %v", reason, err)
		}
	}
}

package main

import (
	"strings"
	"testing"

	"understudy/cmd/understudy/demo"
)

// TestAReportThatWantsMoreOfAStoppedPreview: requests were compared, and there will be no
// more. Who waits for them gets a message that says so, and how they come again.
func TestAReportThatWantsMoreOfAStoppedPreview(t *testing.T) {
	t.Parallel()
	o := operator{t, startServer(t, nil)}
	tighter := demo.Policy + "/tighter"
	o.do("apply", demo.Policy, "-f", "../../deploy/examples/policy.yaml")
	o.do("apply", tighter, "-f", "../../deploy/examples/experiment.yaml")
	o.do("start", tighter)
	if code := run(t.Context(), []string{"check", "--addr", o.r.bound["authz"], "--policy", demo.Policy, "--path", "/public/catalog"}, strings.NewReader(""), t.Output(), t.Output()); code != 0 {
		t.Fatalf("the check ended with %d", code)
	}
	o.awaitReport()
	o.do("stop", tighter)

	var out, stderr strings.Builder
	code := run(t.Context(), []string{"report", tighter, "--require", "requests>=1000", "--admin", o.r.bound["admin"], "--location", location}, strings.NewReader(""), &out, &stderr)
	want := "is not being previewed, so nothing is added to its report: `understudy start "
	if code != 1 || !strings.Contains(stderr.String(), want) {
		t.Errorf("got %d and\n%s\nwant 1 and %q", code, stderr.String(), want)
	}
}

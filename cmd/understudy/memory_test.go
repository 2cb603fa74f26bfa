// With the race detector a process takes eight times as much memory and time: these tests
// would take a minute each, and see no race that the tests of authz/rehearsal/supervisor and
// authz/sidecar do not see.

//go:build !race

package main

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"understudy/cmd/testkit"
)

// TestALivePolicyThatTakesAllMemoryEndsNobody asks a live policy that would make ten
// gigabytes of small steps for some requests: these are ended and denied, and the others are
// allowed, by the same process.
func TestALivePolicyThatTakesAllMemoryEndsNobody(t *testing.T) {
	t.Parallel()
	p := startProcessWith(t, []string{"GOMEMLIMIT=400MiB"}, "--location", "projects/p1/locations/l1")
	content := hostileModule(`input.attributes.request.http.path == "/modest"`)
	content["modules"].(map[string]string)["a.rego"] += `
hostile if {
	input.attributes.request.http.path == "/hungry"
	count({s | some i in numbers.range(1, 100000); s := sprintf("%0100000d", [i])}) > 0
}
`
	p.must(t, "POST", policies+"?policyId=default", asText(t, content))
	hungry, modest := question{method: "GET", path: "/hungry"}.request(), question{method: "GET", path: "/modest"}.request()
	for range 2 {
		answer, err := p.authz.Check(t.Context(), hungry)
		if got := answerKind(answer, err); got != "503" {
			t.Errorf("a hungry request is answered with %s, want 503", got)
		}
		if answer, err = p.authz.Check(t.Context(), modest); err != nil || answer.GetStatus().GetCode() != int32(codes.OK) {
			t.Errorf("a modest request is answered with %v, %v", answer, err)
		}
	}
	if _, page := p.metricsPage(t, ""); sum(page, "understudy_memory_ended_evaluations_total.*") != 2 {
		t.Errorf("the metrics do not count 2 evaluations that were ended:\n%s", page)
	}
	testkit.Await(t, "the log says that an evaluation was ended", func() bool {
		return strings.Contains(p.log.String(), "a live evaluation was ended")
	}, func() any { return p.log })
}

// TestThereIsALimitOfMemory, whether or not anybody has set one.
func TestThereIsALimitOfMemory(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "--location", "projects/p1/locations/l1")
	_, page := p.metricsPage(t, "")
	if limit := sum(page, "go_gc_gomemlimit_bytes"); limit <= 0 || limit > 1<<50 {
		t.Errorf("the limit is %g bytes, want less than the machine has", limit)
	}
}

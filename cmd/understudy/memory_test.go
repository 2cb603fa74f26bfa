// With the race detector a process takes eight times as much memory and time: these tests
// would take a minute each, and see no race that the tests of authz/rehearsal/supervisor and
// authz/sidecar do not see.

//go:build !race

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
)

// TestALivePolicyThatTakesAllMemoryEndsNobody asks a live policy that would make ten
// gigabytes of small steps for some requests: these are ended and denied, and the others are
// allowed, by the same process.
func TestALivePolicyThatTakesAllMemoryEndsNobody(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "400MiB")
	p := startProcess(t, "--location", "projects/p1/locations/l1")
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
	if !strings.Contains(p.log.String(), "a live evaluation was ended") {
		t.Errorf("the log does not say that an evaluation was ended:\n%s", p.log)
	}
}

// TestThereIsALimitOfMemory, whether or not anybody has set one.
func TestThereIsALimitOfMemory(t *testing.T) {
	p := startProcess(t, "--location", "projects/p1/locations/l1")
	_, page := p.metricsPage(t, "")
	if limit := sum(page, "go_gc_gomemlimit_bytes"); limit <= 0 || limit > 1<<50 {
		t.Errorf("the limit is %g bytes, want less than the machine has", limit)
	}
}

// TestAnExperimentThatEndsTheProcessIsSuspended previews one that takes all of the memory:
// it is the culprit of each crash, and not evaluated any more after the third, while live
// checks are allowed and another experiment is compared. With other content it is evaluated
// again. The process ends while that loops.
func TestAnExperimentThatEndsTheProcessIsSuspended(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "--location", "projects/p1/locations/l1", "--rehearsal-memory", fmt.Sprint(96<<20), "--preview-timeout", "1h")
	p.must(t, "POST", policies+"?policyId=default", `{"rules":[{"rego":{}}],"modules":{"a.rego":"package envoy.authz\n\nallow := true\n"}}`)
	experiments := policies + "/default/experiments"
	experiment := func(condition string) string {
		content := hostileModule(condition)
		content["name"] = strings.TrimPrefix(policies, "/v1/") + "/default"
		return asText(t, map[string]any{"policy": content})
	}
	p.must(t, "POST", experiments+"?policyExperimentId=calm", experiment(`rand.intn("x", 2) >= 0`))
	p.must(t, "POST", experiments+"/calm:startPreview", "{}")
	p.must(t, "POST", experiments+"?policyExperimentId=hostile", experiment(hostile["memory in small steps"]))
	p.must(t, "POST", experiments+"/hostile:startPreview", "{}")
	checks := askUntilDone(t, p)
	const failed = `understudy_preview_comparisons_total\{difference="FAILED",experiment="default/hostile",failure="REHEARSAL_PROCESS".*\}`
	p.until(t, func(page string) bool {
		return sum(page, "understudy_rehearsal_suspensions_total") == 1 && sum(page, failed) > 3
	})
	p.comparesOn(t)
	if log := p.log.String(); !strings.Contains(log, "culprit="+strings.TrimPrefix(experiments, "/v1/")+"/hostile") || strings.Contains(log, "culprit="+strings.TrimPrefix(experiments, "/v1/")+"/calm") {
		t.Errorf("the crashes are blamed on somebody else:\n%s", log)
	}
	p.must(t, "PATCH", experiments+"/hostile", experiment(`count([1 | some i in numbers.range(1, 100000); some j in numbers.range(1, 100000); i + j < 0]) == 0`))
	p.comparesOn(t)
	checks.done.Store(true)
	checks.Wait()
	if asked, refused := checks.asked.Load(), checks.refused.Load(); refused > 0 || asked == 0 {
		t.Errorf("%d of %d live checks were not allowed", refused, asked)
	}
	if err := p.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(); err != nil {
		t.Errorf("the process ends with %v:\n%s", err, p.log)
	}
}

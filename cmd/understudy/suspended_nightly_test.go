//go:build nightly && !race

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"understudy/cmd/testkit"
)

// TestAnExperimentThatEndsTheProcessIsSuspended previews one that takes all of the memory:
// it is charged with each death, and not evaluated any more after the third, while live
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
	p.until(t, "the experiment is suspended", func(page string) bool {
		return sum(page, "understudy_rehearsal_suspensions_total") == 1 && sum(page, "understudy_rehearsal_suspended") == 1 && sum(page, failed) > 3
	})
	p.comparesOn(t)
	charged := "charged=" + strings.TrimPrefix(experiments, "/v1/")
	testkit.Await(t, "the log charges the hostile experiment", func() bool {
		return strings.Contains(p.log.String(), charged+"/hostile")
	}, func() any { return p.log })
	if strings.Contains(p.log.String(), charged+"/calm") {
		t.Errorf("a death is charged to somebody else:\n%s", p.log)
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

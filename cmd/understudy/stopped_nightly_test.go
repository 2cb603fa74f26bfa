//go:build linux && nightly

package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestARehearsalProcessThatIsStoppedIsReplaced stops it with SIGSTOP while an experiment is
// compared: live checks are allowed, comparisons that find the queue full are dropped and
// counted, and after a while another process makes them.
func TestARehearsalProcessThatIsStoppedIsReplaced(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "--location", "projects/p1/locations/l1", "--preview-queue", "10", "--preview-timeout", "1h")
	p.must(t, "POST", policies+"?policyId=default", `{"rules":[{"rego":{}}],"modules":{"a.rego":"package envoy.authz\n\nallow := true\n"}}`)
	experiments := policies + "/default/experiments"
	content := hostileModule(`rand.intn("x", 2) >= 0`)
	content["name"] = strings.TrimPrefix(policies, "/v1/") + "/default"
	p.must(t, "POST", experiments+"?policyExperimentId=calm", asText(t, map[string]any{"policy": content}))
	p.must(t, "POST", experiments+"/calm:startPreview", "{}")
	checks := askUntilDone(t, p)
	p.comparesOn(t)
	stopped := childrenOf(t, p.process.Pid)
	if len(stopped) != 1 {
		t.Fatalf("the process has the children %v, want one", stopped)
	}
	if err := syscall.Kill(stopped[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.until(t, "requests are dropped", func(page string) bool {
		return sum(page, `understudy_preview_dropped_total\{.*reason="queue_full".*\}`) > 0
	})
	p.until(t, "the process is replaced", func(page string) bool {
		return sum(page, `understudy_rehearsal_restarts_total\{cause="unresponsive"\}`) == 1
	})
	p.comparesOn(t)
	if now := childrenOf(t, p.process.Pid); len(now) != 1 || slices.Equal(now, stopped) {
		t.Errorf("the process has the children %v, want another than %v", now, stopped)
	}
	checks.done.Store(true)
	checks.Wait()
	if asked, refused := checks.asked.Load(), checks.refused.Load(); refused > 0 || asked == 0 {
		t.Errorf("%d of %d live checks were not allowed", refused, asked)
	}
}

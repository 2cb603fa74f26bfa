//go:build linux && nightly

package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/cmd/testkit"
)

// echoRules answer with a header of the request, so that each user has a decision of its own.
const echoRules = `package envoy.authz

user := input.attributes.request.http.headers["x-user"]

allow := {"allowed": true, "headers": {"x-authenticated-user": user}}
`

// The limits of the sidecar in deploy/kubernetes, in bytes: of its container, and what Go makes of it.
const (
	containerLimit = 512 << 20
	goLimit        = containerLimit / 10 * 9
)

// TestDistinctDecisionsStayWithinTheMemory: one caller makes 300,000 decisions, all different and some large. The
// sidecar stays within the memory of its container, and the decisions of other callers stay in the cache.
func TestDistinctDecisionsStayWithinTheMemory(t *testing.T) {
	p := startProcessWith(t, []string{fmt.Sprintf("GOMEMLIMIT=%d", goLimit)}, "--location", "projects/p1/locations/l1")
	p.must(t, "POST", policies+"?policyId=default", asText(t, map[string]any{
		"rules": []any{map[string]any{"rego": map[string]any{}}}, "modules": map[string]string{"a.rego": echoRules},
	}))
	check := func(user string) error {
		answer, err := p.authz.Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{
			Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/", Headers: map[string]string{"x-user": user}},
		}}})
		if err == nil && answer.GetStatus().GetCode() != 0 {
			err = fmt.Errorf("the request of %.20s is denied: %v", user, answer.GetDeniedResponse())
		}
		return err
	}
	const callers, each = 16, 300_000 / 16
	honest, ended := 0, make(chan error, callers)
	for caller := range callers {
		honest += each / 10
		go func() {
			var err error
			for i := 0; i < each && err == nil; i++ {
				size := []int{100, 1700, 3500}[i%3]
				err = check(fmt.Sprintf("%d-%d-%s", caller, i, strings.Repeat("x", size)))
				if i%10 == 9 && err == nil {
					err = check(fmt.Sprint("user ", i/10%50))
				}
			}
			ended <- err
		}()
	}
	for range callers {
		if err := testkit.Receive(t, "a client to end", ended); err != nil {
			t.Fatal(err)
		}
	}
	if most := mostResident(t, p.process.Pid); most > containerLimit {
		t.Errorf("the process took %d MiB, and its container has %d", most>>20, containerLimit>>20)
	}
	_, page := p.metricsPage(t, "")
	if hits := sum(page, `understudy_decisions_total\{[^}]*="hit"[^}]*\}`); hits < float64(honest)*0.9 {
		t.Errorf("%g of %d requests of other callers were answered from the cache", hits, honest)
	}
}

// mostResident returns how much memory a process had at most, in bytes.
func mostResident(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(status) {
		if text, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kilobytes, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(string(text)), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	t.Fatal("the system does not say how much memory a process has")
	return 0
}

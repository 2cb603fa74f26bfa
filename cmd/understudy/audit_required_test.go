package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/audit"
	"understudy/cmd/testkit"
)

// TestNoChangeWithoutAnEvent: with --audit=required a change is refused while its event has no
// place, on each store, and made when the collector is back.
func TestNoChangeWithoutAnEvent(t *testing.T) {
	for name, store := range auditStores(t) {
		t.Run(name, func(t *testing.T) {
			address := testkit.FreeAddress()
			t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://"+address)
			t.Setenv("OTEL_BLRP_MAX_QUEUE_SIZE", "2")
			a := startAuditingTo(t, newCollector(), store, "required")
			for i, path := range []string{policies + "?policyId=p0", policies + "/p0/experiments?policyExperimentId=e1"} {
				body := []string{"{}", `{"policy":{"name":"projects/p1/locations/l1/policies/p0"}}`}[i]
				if code, answer := a.send("POST", path, body); code != http.StatusOK {
					t.Fatalf("the change %d answered %d: %v", i, code, answer)
				}
			}
			a.refused()
			a.denied()
			a.collector.listenAt(t, address)
			t.Cleanup(a.end) // before the collector
			code := 0
			testkit.Await(t, "a change is made when there is a collector", func() bool {
				code, _ = a.send("POST", policies+"?policyId=after", "{}")
				return code == http.StatusOK
			}, func() any { return code })
			for range 3 {
				a.want("the events", a.next(), map[string]string{audit.AttributeOutcome: "OK"})
			}
		})
	}
}

// refused checks that each way to change something is refused, and that nothing has changed.
func (a *auditing) refused() {
	a.Helper()
	before := a.everything()
	for _, call := range [][3]string{
		{"POST", policies + "?policyId=p2", "{}"}, {"DELETE", policies + "/p0", ""},
		{"PATCH", "/v1/projects/p1/locations/l1/config", `{"nextLocation":"projects/p1/locations/l2"}`},
		{"POST", policies + "/p0:setIamPolicy", `{"policy":{"bindings":[{"role":"roles/understudy.viewer","members":["token:x"]}]}}`},
	} {
		code, answer := a.send(call[0], call[1], call[2])
		if code != http.StatusServiceUnavailable || !strings.Contains(fmt.Sprint(answer), "AUDIT_UNAVAILABLE") {
			a.Errorf("%s %s answered %d: %v; want 503 with AUDIT_UNAVAILABLE", call[0], call[1], code, answer)
		}
	}
	const create = "understudy.admin.v1.PolicyPreview/CreatePolicy"
	if err := a.invoke(annsToken, create, `{"parent":"projects/p1/locations/l1","policyId":"p2","policy":{}}`, nil); status.Code(err) != codes.Unavailable {
		a.Errorf("gRPC answered %v; want UNAVAILABLE", err)
	}
	if code := a.submit(annsToken, "/ui/projects/p1/locations/l1/policies/p0/experiments/e1/start", url.Values{}); code != http.StatusServiceUnavailable {
		a.Errorf("the page answered %d; want 503", code)
	}
	if code, answer := a.send("PUT", "/policy_groups/l7", "{}"); code != http.StatusServiceUnavailable {
		a.Errorf("the Policyfile API answered %d: %v; want 503", code, answer)
	}
	if code, answer := a.send("POST", policies+"?policyId=p2&validateOnly=true", "{}"); code != http.StatusOK {
		a.Errorf("a validation answered %d: %v; want 200", code, answer)
	}
	if after := a.everything(); after != before {
		a.Errorf("before the calls that were refused there was\n%s\nand after them\n%s", before, after)
	}
	if _, page := a.call(a.T, "health", "GET", "/metrics", ""); !strings.Contains(page, `understudy_audit_events_total{outcome="refused"} 7`) {
		a.Error("the metrics do not count 7 refused changes")
	}
}

// denied checks that who may not change something gets that error, whether it could be recorded or not.
func (a *auditing) denied() {
	a.Helper()
	const create = "understudy.admin.v1.PolicyPreview/CreatePolicy"
	if err := a.invoke(bobsToken, create, `{"parent":"projects/p1/locations/l1","policyId":"p2","policy":{}}`, nil); status.Code(err) != codes.PermissionDenied {
		a.Errorf("gRPC answered %v to somebody who may not; want PERMISSION_DENIED", err)
	}
	if code := a.submit(bobsToken, "/ui/projects/p1/locations/l1/policies/p0/experiments/e1/start", url.Values{}); code != http.StatusForbidden {
		a.Errorf("the page answered %d to somebody who may not; want 403", code)
	}
	a.token = bobsToken
	for _, call := range [][2]string{{"DELETE", policies + "/p0"}, {"DELETE", "/policy_groups/l1"}} {
		if code, answer := a.send(call[0], call[1], ""); code != http.StatusForbidden {
			a.Errorf("%s %s answered %d to somebody who may not: %v; want 403", call[0], call[1], code, answer)
		}
	}
	a.token = annsToken
}

// everything is what can be read.
func (a *auditing) everything() string {
	a.Helper()
	var all []any
	for _, path := range []string{
		policies, "/v1/projects/p1/locations/l1/config", "/v1/projects/p1/locations/l1/operations", policies + "/p0:getIamPolicy", "/policy_groups",
	} {
		_, answer := a.send("GET", path, "")
		all = append(all, answer)
	}
	shown, err := json.Marshal(all)
	if err != nil {
		a.Fatal(err)
	}
	return string(shown)
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	"understudy/authz/diagnostics/logtest"
	"understudy/cmd/understudy/telemetry"
)

// TestAnObserverCannotBeOverlooked: it answers OK, decides and records as always, and
// everything that reports it says that nothing was enforced.
func TestAnObserverCannotBeOverlooked(t *testing.T) {
	c := newCollector()
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", c.listenGRPC(t))
	t.Setenv("OTEL_BLRP_SCHEDULE_DELAY", "20")
	log := &logtest.Buffer{}
	r := startServerWithLog(t, log, func(c *config) {
		logTo(nil, telemetry.SinkOTel)(c)
		c.observe = true
	})
	r.preview(t)
	response, err := r.authz.Check(t.Context(), question{method: "POST", path: "/x"}.request())
	if err != nil {
		t.Fatal(err)
	}
	observed := response.GetDynamicMetadata().GetFields()["observed"].GetStructValue().GetFields()
	if response.GetStatus().GetCode() != 0 || response.GetHttpResponse() != nil || observed["decision"].GetStringValue() != "DENY" {
		t.Errorf("the answer is %v", response)
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "none is enforced") {
		t.Errorf("the start does not warn:\n%s", log)
	}
	if _, body := r.call(t, "health", "GET", "/readyz", ""); !strings.Contains(body, `"observing":true`) {
		t.Errorf("/readyz is %s", body)
	}
	if _, body := r.call(t, "admin", "GET", "/v1/projects/p1/locations/l1/nodes", ""); !strings.Contains(body, `"observing":true`) {
		t.Errorf("the nodes are %s", body)
	}
	_, metrics := r.call(t, "health", "GET", "/metrics", "")
	for _, name := range []string{"understudy_observing ", `understudy_checks_total{`} {
		i := strings.Index(metrics, "\n"+name)
		line, _, _ := strings.Cut(metrics[max(i, 0)+1:], "\n")
		if i < 0 || !strings.HasSuffix(line, " 1") || name != "understudy_observing " && !strings.Contains(line, `observing="true"`) {
			t.Errorf("the metric is %q", line)
		}
	}
	checkObserved(t, c, response)
}

// checkObserved waits for the preview record and the decision of a check.
func checkObserved(t *testing.T, c *collector, response *authv3.CheckResponse) {
	t.Helper()
	id := response.GetDynamicMetadata().GetFields()["observed"].GetStructValue().GetFields()["decision_id"].GetStringValue()
	late := time.After(scriptTime)
	for seen := map[string]bool{}; len(seen) < 2; {
		select {
		case record := <-c.records:
			seen[record.GetEventName()] = true
			if record.GetEventName() == "understudy.decision" {
				var event struct {
					Labels map[string]string
					ID     string `json:"decision_id"`
				}
				if err := json.Unmarshal([]byte(record.GetBody().GetStringValue()), &event); err != nil {
					t.Fatal(err)
				}
				if event.Labels["observing"] != "true" || event.ID != id {
					t.Errorf("the event is %+v", event)
				}
			} else if !attributeOf(record, "understudy.observing") {
				t.Errorf("the record is %v", record)
			}
		case <-late:
			t.Fatalf("there are %v; want a record and a decision", seen)
		}
	}
}

func attributeOf(record *logspb.LogRecord, key string) bool {
	for _, a := range record.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetBoolValue()
		}
	}
	return false
}

// TestWhoEnforcesIsNoObserver: nothing of it is there without the flag.
func TestWhoEnforcesIsNoObserver(t *testing.T) {
	t.Parallel()
	r := startServer(t, nil)
	r.preview(t)
	if code := r.check(t, "POST"); code != 7 {
		t.Errorf("a denial is answered with %d", code)
	}
	_, ready := r.call(t, "health", "GET", "/readyz", "")
	_, nodes := r.call(t, "admin", "GET", "/v1/projects/p1/locations/l1/nodes", "")
	_, metrics := r.call(t, "health", "GET", "/metrics", "")
	checks := metrics[strings.Index(metrics, "understudy_checks_total{"):]
	if strings.Contains(ready, "observing") || strings.Contains(nodes, `"observing":true`) || strings.Contains(checks[:200], "observing=") {
		t.Errorf("/readyz is %s, nodes %s, checks %.200s", ready, nodes, checks)
	}
}

// TestObserveIsRefused with what it cannot be together with.
func TestObserveIsRefused(t *testing.T) {
	for name, change := range map[string]func(*config){
		"fail-with-error": func(c *config) { c.failWithError = failError },
		"reservations":    func(c *config) { c.reservations.policy = "leases" },
		"no decisions":    func(c *config) { c.enable = []string{"admin"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_STATE_HOME", filepath.Join(os.TempDir(), "none"))
			c := demoConfig(t.TempDir())
			c.observe = true
			change(&c)
			if err := c.finish(); err == nil || !strings.Contains(err.Error(), "--observe: ") {
				t.Errorf("got %v", err)
			}
		})
	}
}

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	"understudy/cmd/testkit"
	"understudy/cmd/understudy/telemetry"
)

// loggedEvent is what the tests read of an event.
type loggedEvent struct {
	Labels  map[string]string `json:"labels"`
	TraceID string            `json:"trace_id"`
	Bundles map[string]struct {
		Revision string `json:"revision"`
	} `json:"bundles"`
	Path  string `json:"path"`
	Input struct {
		Attributes struct {
			Request struct {
				HTTP struct {
					Method  string            `json:"method"`
					Headers map[string]string `json:"headers"`
				} `json:"http"`
			} `json:"request"`
		} `json:"attributes"`
	} `json:"input"`
	Result any      `json:"result"`
	Masked []string `json:"masked"`
}

func readEvent(t *testing.T, text string) loggedEvent {
	t.Helper()
	var e loggedEvent
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatalf("an event does not parse: %v\n%s", err, text)
	}
	return e
}

// logTo changes a configuration, with the defaults of the flags.
func logTo(out *os.File, sinks ...string) func(*config) {
	return func(c *config) {
		c.decisionLog = telemetry.DecisionLog{
			Sinks: sinks, Labels: map[string]string{"team": "shop"}, Sample: 1, Queue: 4096, QueueBytes: 64 << 20, EventBytes: 32 << 10, Out: out,
		}
	}
}

// TestDecisionsAreExported receives the event of a decision as a collector would,
// next to the preview record of the same request.
func TestDecisionsAreExported(t *testing.T) {
	c := newCollector()
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", c.listenGRPC(t))
	t.Setenv("OTEL_BLRP_SCHEDULE_DELAY", "20")
	r := startServer(t, logTo(nil, telemetry.SinkOTel))
	r.preview(t)
	r.check(t, "GET")
	for previews := 0; ; {
		record := testkit.Receive(t, "the event of a decision", c.records)
		if record.GetEventName() == "understudy.decision" {
			checkDecision(t, record)
			return
		}
		if previews++; previews > 1 {
			t.Fatal("one request has two preview records")
		}
	}
}

func checkDecision(t *testing.T, record *logspb.LogRecord) {
	t.Helper()
	e := readEvent(t, record.GetBody().GetStringValue())
	http := e.Input.Attributes.Request.HTTP
	if e.Path != "envoy/authz/allow" || e.Result != true || http.Method != "GET" {
		t.Errorf("the event is %+v", e)
	}
	if e.Labels["team"] != "shop" || e.Labels["version"] != version || e.Labels["id"] != "demo" {
		t.Errorf("the labels are %v", e.Labels)
	}
	if !strings.HasPrefix(e.Bundles["projects/p1/locations/l1/policies/shop"].Revision, `W/"`) {
		t.Errorf("the bundles are %v", e.Bundles)
	}
	if http.Headers["authorization"] != "***" || http.Headers["cookie"] != "***" || len(e.Masked) != 2 {
		t.Errorf("the headers are %v, masked is %v", http.Headers, e.Masked)
	}
	if !strings.HasPrefix(e.TraceID, "abab") || len(record.GetTraceId()) != 16 {
		t.Errorf("the trace is %q, and %x beside the event", e.TraceID, record.GetTraceId())
	}
}

// TestAConsoleThatNobodyReads answers checks while standard output is a full pipe.
// What was decided is written when someone reads, up to the shutdown.
func TestAConsoleThatNobodyReads(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	const requests = 200
	lines := make(chan string, requests)
	served := t.Run("serve", func(t *testing.T) {
		r := startServer(t, logTo(write, telemetry.SinkConsole))
		r.preview(t)
		for i := range requests {
			if method := []string{"GET", "POST"}[i%2]; r.check(t, method) != []int32{0, 7}[i%2] {
				t.Fatalf("%s is not answered as it should be", method)
			}
		}
		go func() {
			defer close(lines)
			for s := bufio.NewScanner(read); s.Scan(); {
				lines <- s.Text()
			}
		}()
	})
	if err := write.Close(); err != nil || !served {
		t.Fatal("nothing was served:", err)
	}
	counts, size := make(map[any]int), 0
	for line := range lines {
		size += len(line)
		counts[readEvent(t, line).Result]++
	}
	if counts[true] != requests/2 || counts[false] != requests/2 {
		t.Errorf("the events are %v, want %d of each", counts, requests/2)
	}
	if size < 1<<17 {
		t.Errorf("all events have %d bytes, which a pipe can hold: the test shows nothing", size)
	}
}

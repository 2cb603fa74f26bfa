package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/grpc"

	"understudy/admin/audit"
	"understudy/cmd/testkit"
)

// slowCollector takes nothing until it is released.
type slowCollector struct {
	*collector
	released chan struct{}
}

// Export waits.
func (c *slowCollector) Export(ctx context.Context, r *collogspb.ExportLogsServiceRequest) (*collogspb.ExportLogsServiceResponse, error) {
	select {
	case <-c.released:
		return c.collector.Export(ctx, r)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// startBehindSlow starts a server whose collector takes nothing until release is called.
func startBehindSlow(t *testing.T, mode string) (a *auditing, release func()) {
	t.Helper()
	slow := &slowCollector{newCollector(), make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rpc := grpc.NewServer()
	collogspb.RegisterLogsServiceServer(rpc, slow)
	go func() { _ = rpc.Serve(l) }()
	t.Cleanup(rpc.Stop)
	release = sync.OnceFunc(func() { close(slow.released) })
	t.Cleanup(release)
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://"+l.Addr().String())
	return startAuditingTo(t, slow.collector, "", mode), release
}

// answers asks for the same until it is stopped, and returns how often, and which answers
// there were.
func (a *auditing) answers(token string, stop <-chan struct{}, atLeast int, method, path, body string) map[int]int {
	counts := make(map[int]int)
	// A caller without a pause would leave no processor to what the changes wait for.
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for n := 0; ; n++ {
		<-pace.C
		select {
		case <-stop:
			if n >= atLeast {
				return counts
			}
		default:
		}
		request, err := http.NewRequestWithContext(a.Context(), method, "http://"+a.bound["admin"]+path, strings.NewReader(body))
		if err != nil {
			a.Error(err)
			return counts
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			a.Error(err)
			return counts
		}
		_ = response.Body.Close()
		counts[response.StatusCode]++
	}
}

// TestNoiseTakesNoPlaceOfChanges: while a collector is slow, somebody without any role makes as
// many calls as he can, and so do others whose calls change nothing. All changes are made, and
// all of their events arrive.
func TestNoiseTakesNoPlaceOfChanges(t *testing.T) {
	// Of the places of the queue three quarters are for changes.
	const queue, changes, noise = 64, 48, 100
	for _, mode := range []string{"best-effort", "required"} {
		t.Run(mode, func(t *testing.T) {
			t.Setenv("OTEL_BLRP_MAX_QUEUE_SIZE", fmt.Sprint(queue))
			a, release := startBehindSlow(t, mode)
			code, answer := a.send("POST", policies+"?policyId=web", "{"+onlyGET+"}")
			made := map[string]bool{text(answer, "name"): false} // :: operation of a change → its event has come
			stop := make(chan struct{})
			var makers sync.WaitGroup
			for _, n := range []struct {
				token, method, path, body string
				want                      int
			}{
				{bobsToken, "DELETE", policies + "/web?validateOnly=true", "", 403},
				{bobsToken, "PATCH", policies + "/web", `{"displayName":"x"}`, 403},
				{bobsToken, "DELETE", "/policy_groups/l1", "", 403},
				{annsToken, "DELETE", policies + "/web?validateOnly=true", "", 200},
				{annsToken, "PATCH", policies + "/web?updateMask=rules", "{" + onlyGET + "}", 200}, // as it is
				{marker + "-nobody's", "DELETE", policies + "/web", "", 401},
			} {
				makers.Go(func() {
					if got := a.answers(n.token, stop, noise, n.method, n.path, n.body); len(got) != 1 || got[n.want] == 0 {
						t.Errorf("%s %s: the answers are %v, want %d alone", n.method, n.path, got, n.want)
					}
				})
			}
			for i := 1; code == http.StatusOK && i < changes; i++ {
				code, answer = a.send("PATCH", policies+"/web", fmt.Sprintf(`{"displayName":"change %d"}`, i))
				made[text(answer, "name")] = false
			}
			close(stop)
			makers.Wait()
			release()
			if code != http.StatusOK {
				t.Errorf("the change %d answered %d: %v", len(made), code, answer)
			}
			a.awaitChanges(made, queue-changes)
		})
	}
}

// awaitChanges waits for the events of all changes. Of what changed nothing there are some, as far
// as there are places for them.
func (a *auditing) awaitChanges(made map[string]bool, places int) {
	a.Helper()
	left, minor := len(made), 0
	for left > 0 {
		event := attributesOf(testkit.Receive(a, fmt.Sprintf("the events of %d changes of %d", left, len(made)), a.collector.audited))
		arrived, known := made[event[audit.AttributeOperation]]
		switch {
		case known && !arrived && event[audit.AttributeOutcome] == "OK":
			made[event[audit.AttributeOperation]] = true
			left--
		case !known:
			minor++
		}
	}
	if minor == 0 || minor > places {
		a.Errorf("there are %d other events; the queue has %d places for them", minor, places)
	}
}

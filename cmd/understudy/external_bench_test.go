package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
)

// callers are those that wait for the service at the same time.
const callers = 200

// BenchmarkCheckBesideAServiceThatHangs is one check of Envoy's after the other, alone
// and next to callers who always wait for a service that never answers: on the port for
// reservation checks, and on Envoy's own over a connection of their own. All is in one
// process, the callers and the service too.
//
//	go test ./cmd/understudy -run '^$' -bench BesideAServiceThatHangs -benchtime 20000x -count 5
func BenchmarkCheckBesideAServiceThatHangs(b *testing.B) {
	for _, c := range []struct {
		name   string
		caller func(*testing.B, *running) wait
	}{
		{"alone", nil},
		{"reservations", waitForReservation},
		{"checks", waitForCheck},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkBeside(b, c.caller) })
	}
}

// wait makes one call, and returns when it is answered.
type wait func(context.Context) error

func benchmarkBeside(b *testing.B, caller func(*testing.B, *running) wait) {
	arrived := make(chan struct{}, 1<<20)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		// Only then does the server notice that its caller has gone.
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	b.Cleanup(service.Close)
	r := startServer(b, func(c *config) {
		c.reservations = reservationConfig{policy: "usage", addr: "127.0.0.1:0", basePath: "/", concurrency: callers}
		c.external = externalConfig{allow: []string{"127.0.0.1"}, timeout: 2 * time.Second, concurrency: callers}
	})
	for id, policy := range map[string]string{
		"shop": "{" + onlyGET + "}", "usage": fmt.Sprintf(`{"rules":[{"externalService":{"endpointUrl":%q}}]}`, service.URL),
	} {
		if code, body := r.call(b, "admin", "POST", policies+"?policyId="+id, policy); code != 200 {
			b.Fatalf("the policy is answered with %d: %s", code, body)
		}
	}
	if caller != nil {
		keepWaiting(b, caller(b, r))
		for range callers {
			<-arrived
		}
	}
	times := measureChecks(b, r)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}

// keepWaiting has all callers wait until the benchmark ends.
func keepWaiting(b *testing.B, call wait) {
	var waiting sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	b.Cleanup(func() { cancel(); waiting.Wait() })
	for range callers {
		waiting.Go(func() {
			for ctx.Err() == nil {
				if err := call(ctx); err != nil && ctx.Err() == nil {
					b.Error(err)
					return
				}
			}
		})
	}
}

// measureChecks returns the sorted times of checks.
func measureChecks(b *testing.B, r *running) []time.Duration {
	b.Helper()
	request := question{method: "GET", path: "/x", service: "web"}.request()
	times := make([]time.Duration, b.N)
	b.ResetTimer()
	for i := range times {
		begin := time.Now()
		response, err := r.authz.Check(b.Context(), request)
		if err != nil || response.GetStatus().GetCode() != 0 {
			b.Fatalf("got %v, %v", response, err)
		}
		times[i] = time.Since(begin)
	}
	b.StopTimer()
	slices.Sort(times)
	return times
}

// waitForReservation asks for a lease, over a connection of its own as Blazar does.
func waitForReservation(_ *testing.B, r *running) wait {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, "POST", "http://"+r.bound["reservation"]+"/v1/check-create",
			strings.NewReader(`{"context": {"project_id": "p"}, "lease": {"name": "training"}}`))
		if err != nil {
			return err
		}
		request.Close = true
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusForbidden {
			err = fmt.Errorf("the reservation gets %s", response.Status)
		}
		_ = response.Body.Close()
		return err
	}
}

// waitForCheck checks a request of Envoy's by the policy that asks the service.
func waitForCheck(b *testing.B, r *running) wait {
	conn, err := grpc.NewClient(r.bound["authz"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	request := question{method: "GET", path: "/x", service: "web"}.request()
	request.Attributes.ContextExtensions = map[string]string{"policy": "usage"}
	return func(ctx context.Context) error {
		response, err := authv3.NewAuthorizationClient(conn).Check(ctx, request)
		if err == nil && response.GetStatus().GetCode() == 0 {
			err = fmt.Errorf("the check gets %v", response)
		}
		return err
	}
}

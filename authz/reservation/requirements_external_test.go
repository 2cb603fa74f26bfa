package reservation_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	adminpb "understudy/admin/v1"
	"understudy/authz/reservation"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// The messages that Blazar's user reads if the service gives none, and if it gives no
// decision.
const (
	silentMessage  = "The external service denied the request."
	failureMessage = "The policy could not decide about this reservation, so it is not allowed. Ask who runs this cloud."
)

// responseCase is one way in which an external service responds.
type responseCase struct {
	id      string
	service http.HandlerFunc
	// message is that without allow_on_error.
	message string
	change  func(*sidecar.Config)
}

// responseCases are all of them; the redirect leads to a URL.
func responseCases(redirect string) []responseCase {
	large := strings.Repeat("x", 10<<20)
	return []responseCase{
		{"Z-15 204", says(204, ""), "", nil},
		{"Z-15 403 with a message", says(403, `{"message": "Your project has used its budget."}`), "Your project has used its budget.", nil},
		{"Z-15 403 without a body", says(403, ""), silentMessage, nil},
		{"Z-15 403 without JSON", says(403, "oops"), silentMessage, nil},
		{"Z-15 403 with an array", says(403, `["oops"]`), silentMessage, nil},
		{"403 of 10 MB", says(403, `{"message": "`+large+`"}`), silentMessage, nil},
		{"403 that says to be longer than it is", writes("HTTP/1.1 403 X\r\nContent-Length: 99\r\n\r\noops"), silentMessage, nil},
		{"Z-17 200", says(200, `{"message": "oops"}`), failureMessage, nil},
		{"Z-17 404", says(404, "oops"), failureMessage, nil},
		{"Z-17 500", says(500, "oops"), failureMessage, nil},
		{"200 of 10 MB", says(200, large), failureMessage, nil},
		{"Z-17 slow", hangs, failureMessage, impatient},
		{"resetting", resets, failureMessage, nil},
		{"not HTTP", writes("oops"), failureMessage, nil},
		{"a header of 10 MB", writes("HTTP/1.1 204 X\r\nX: " + large + "\r\n\r\n"), failureMessage, nil},
		{"an answer of two lengths", writes("HTTP/1.1 200 X\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"), failureMessage, nil},
		{"Z-19 a redirect", http.RedirectHandler(redirect, http.StatusTemporaryRedirect).ServeHTTP, failureMessage, nil},
	}
}

// rows are the requirements of a case: a chain without allow_on_error, and one with.
func (c responseCase) rows(t *testing.T) []requirement {
	row := requirement{id: c.id, chain: "usage", asks: create(t, nil), message: c.message, asked: 1, service: c.service, change: c.change}
	if c.change != nil {
		row.asked = -1 // its time may be over before the call arrives
	}
	allowing := row
	allowing.id, allowing.chain = "Z-18 Z-45 allowed: "+c.id, "usage allow"
	if c.message == failureMessage {
		allowing.message = ""
	}
	return []requirement{row, allowing}
}

// TestRequirementsOfTheExternalService has a row for each response of a service: what
// Blazar's user gets, without and with allow_on_error.
func TestRequirementsOfTheExternalService(t *testing.T) {
	other := newService(t, nil)
	var rows []requirement
	for _, c := range responseCases(other.URL + "/v1/check-create") {
		rows = append(rows, c.rows(t)...)
	}
	t.Run("responses", func(t *testing.T) { run(t, rows) })
	if n := len(other.calls()); n != 0 {
		t.Errorf("the redirect is followed %d times", n)
	}
	t.Run("unreachable", unreachableServices)
	unset := newService(t, nil)
	for _, chain := range []string{"usage", "length; usage", "length; usage allow"} {
		t.Run("Z-2 Z-16 Z-44 no endpoint: "+chain, func(t *testing.T) {
			requirement{chain: chain, asks: create(t, lasts(87600*time.Hour))}.check(t, unset, "")
		})
	}
}

// unreachableServices: a service that cannot be called gives no decision.
func unreachableServices(t *testing.T) {
	uncalled := newService(t, nil)
	for id, url := range map[string]string{
		"Z-17 down": "http://127.0.0.1:1", "Z-17 of no such name": "http://usage.invalid",
		"Z-17 without TLS": "https://" + strings.TrimPrefix(uncalled.URL, "http://"),
		"this machine":     strings.Replace(uncalled.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1),
	} {
		row := requirement{chain: "usage", asks: create(t, nil), message: failureMessage}
		if id == "this machine" {
			row.change = func(c *sidecar.Config) { c.External.AllowAddresses = nil }
		}
		t.Run(id, func(t *testing.T) { row.check(t, uncalled, url) })
		row.chain, row.message = "usage allow", ""
		t.Run("Z-18 allowed: "+id, func(t *testing.T) { row.check(t, uncalled, url) })
	}
}

// TestServiceGetsBlazarsBody is Z-14 and Z-36: the examples of the specification
// and the bodies of Blazar's code go on to a service behind, at each base URL, with the
// server's token in place of Blazar's.
func TestServiceGetsBlazarsBody(t *testing.T) {
	for _, base := range []string{"", "/", "/usage", "/usage/"} {
		service := newService(t, nil)
		live := &adminpb.Policy{Name: leases, Etag: "live", Rules: filters(t, "usage", service.URL+base)}
		s, _, _ := deciding(t, policies{leases: {Policy: live}}, onThisMachine)
		p := serve(t, s, nil)
		names := slices.Sorted(maps.Keys(operations))
		for _, source := range []string{"spec", "blazar"} {
			for _, name := range names {
				sent := fixture(t, source+"-"+name)
				if message, err := (blazar{p.url + "/v1/", token}).ask(name, sent); err != nil || message != "" {
					t.Fatalf("denied with %q, %v", message, err)
				}
				calls := service.calls()
				got := calls[len(calls)-1]
				if want := strings.TrimSuffix(base, "/") + "/v1/" + name; got.path != want || got.token != "ours" {
					t.Errorf("%s is called with the token %q, want %s", got.path, got.token, want)
				}
				if diff := cmp.Diff(exact(t, sent), exact(t, got.body)); diff != "" {
					t.Errorf("%s %s (-want +got):\n%s", source, name, diff)
				}
			}
		}
		if n := len(service.calls()); n != 6 {
			t.Errorf("the service is called %d times for 6 calls", n)
		}
	}
}

// TestLiveAnswerIsReused is Z-37: an experiment around the same service asks it
// nothing, one around another service neither unless the server allows it, and an end is
// notified once.
func TestLiveAnswerIsReused(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		t.Run(fmt.Sprintf("shadow calls %v", allowed), func(t *testing.T) {
			service, other := newService(t, says(403, `{"message": "no"}`)), newService(t, nil)
			candidate := func(id, chain, url string) *adminpb.PolicyExperiment {
				return &adminpb.PolicyExperiment{Name: leases + "/experiments/" + id, Etag: id, Policy: &adminpb.Policy{
					Rules: filters(t, chain, url), Modules: map[string]string{"m.rego": someRules}}}
			}
			feed := policies{leases: {
				Policy: &adminpb.Policy{Name: leases, Etag: "live", Rules: filters(t, "length; usage", service.URL)},
				Experiments: []*adminpb.PolicyExperiment{
					candidate("allow", "usage allow", service.URL), candidate("other", "usage", other.URL),
					candidate("stricter", "rego one; usage", service.URL), candidate("without", "rego yes", ""),
				},
			}}
			s, previews, _ := deciding(t, feed, onThisMachine, func(c *sidecar.Config) { c.External.ShadowCalls = allowed })
			p := serve(t, s, nil)
			differences := func(name string) map[string]string {
				if _, err := (blazar{p.url + "/v1/", token}).ask(name, fixture(t, "blazar-"+name)); err != nil {
					t.Fatal(err)
				}
				got := make(map[string]string)
				for range 4 {
					a := previews.await(t).attributes
					got[a["understudy.experiment.etag"]] = a["understudy.preview.difference"]
				}
				return got
			}
			want := map[string]string{"allow": "UNCHANGED", "other": "FAILED", "stricter": "RESPONSE_CHANGED", "without": "NEWLY_ALLOWED"}
			if allowed {
				want["other"] = "NEWLY_ALLOWED"
			}
			if diff := cmp.Diff(want, differences("check-create")); diff != "" {
				t.Errorf("create (-want +got):\n%s", diff)
			}
			want = map[string]string{"allow": "UNCHANGED", "other": "UNCHANGED", "stricter": "UNCHANGED", "without": "UNCHANGED"}
			if diff := cmp.Diff(want, differences("on-end")); diff != "" {
				t.Errorf("end (-want +got):\n%s", diff)
			}
			shadow := map[bool]int{true: 1}[allowed]
			if n, m := len(service.calls()), len(other.calls()); n != 2 || m != shadow {
				t.Errorf("the services are called %d and %d times, want 2 and %d", n, m, shadow)
			}
		})
	}
}

// TestHangingServiceDoesNotBlockEnds fills the port with checks that wait for a service, and
// notifies it of an end.
func TestHangingServiceDoesNotBlockEnds(t *testing.T) {
	const room = 8
	arrived, release := make(chan struct{}, room), make(chan struct{})
	service := newService(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "check-create") {
			arrived <- struct{}{}
			<-release
		}
		w.WriteHeader(204)
	})
	live := &adminpb.Policy{Name: leases, Etag: "live", Rules: filters(t, "usage", service.URL)}
	s, _, _ := deciding(t, policies{leases: {Policy: live}}, onThisMachine)
	p := serve(t, s, func(c *reservation.Config) { c.Concurrency = room })
	client := blazar{p.url + "/v1/", token}
	results := make(chan string, room)
	for range room {
		go func() {
			message, err := client.ask("check-create", fixture(t, "blazar-check-create"))
			results <- fmt.Sprint(message, err)
		}()
	}
	for range room {
		testkit.Closed(t, "the service to be asked", arrived)
	}
	if response, err := client.post("check-create", fixture(t, "blazar-check-create")); err != nil || response.StatusCode != 429 {
		t.Errorf("a check without room gets %q, %v", response.Status, err)
	}
	response, err := client.post("on-end", fixture(t, "blazar-on-end"))
	if err != nil || response.StatusCode != 204 {
		t.Errorf("an end gets %q, %v", response.Status, err)
	}
	if calls := service.calls(); calls[len(calls)-1].path != "/v1/on-end" {
		t.Errorf("the last call of the service is %s", calls[len(calls)-1].path)
	}
	close(release)
	for range room {
		if got := testkit.Receive(t, "a request to end", results); got != fmt.Sprint("", error(nil)) {
			t.Errorf("a check is denied with %s", got)
		}
	}
}

// TestTheExternalServiceIsObservable is Z-20: each call of it is counted by its outcome,
// timed, and a span in the trace of Blazar's call.
func TestTheExternalServiceIsObservable(t *testing.T) {
	service := newService(t, says(500, ""))
	reader, spans := sdkmetric.NewManualReader(), tracetest.NewInMemoryExporter()
	live := &adminpb.Policy{Name: leases, Etag: "live", Rules: filters(t, "usage", service.URL)}
	s, _, _ := deciding(t, policies{leases: {Policy: live}}, onThisMachine, func(c *sidecar.Config) {
		c.Meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		c.External.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test")
	})
	p, id := serve(t, s, nil), strings.Repeat("ab", 16)
	ask := call{body: fixture(t, "blazar-check-create"), headers: map[string]string{"traceparent": "00-" + id + "-" + strings.Repeat("cd", 8) + "-01"}}
	if response := ask.send(t, p); response.StatusCode != 403 {
		t.Fatalf("got %s", response.Status)
	}
	if got := spans.GetSpans(); len(got) != 1 || got[0].SpanContext.TraceID().String() != id || got[0].Status.Description != "status" {
		t.Errorf("the spans are %+v", got)
	}
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]attribute.Set)
	for _, m := range data.ScopeMetrics[0].Metrics {
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			seen[m.Name] = d.DataPoints[0].Attributes
		case metricdata.Histogram[float64]:
			seen[m.Name] = d.DataPoints[0].Attributes
		}
	}
	for _, name := range []string{"understudy.external.calls", "understudy.external.duration"} {
		set := seen[name]
		if outcome, _ := set.Value("outcome"); outcome.String() != "status" {
			t.Errorf("%s has the outcome %q", name, outcome.String())
		}
	}
}

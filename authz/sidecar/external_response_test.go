package sidecar_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"understudy/authz"
	"understudy/authz/extservice"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// hang answers only when its client has gone.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// endless sends a denial whose body never ends.
func endless(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusForbidden)
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, strings.Repeat(" ", 4096)); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
	}
}

// trickle sends the beginning of a denial, then nothing.
func trickle(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, `{"message":`)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func reset(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }

const response = "HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s"

// TestServicesInAllResponseCases is Z-15, Z-17, Z-18 and Z-45, and the faults of a
// service: each answer with what it means, and with what it means if errors are allowed.
func TestServicesInAllResponseCases(t *testing.T) {
	t.Parallel()
	const generic, failed = "The external service denied the request.", "The external service gave no decision."
	large := strings.Repeat("a", 10<<20)
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		// outcome is the label of the metric.
		outcome string
		// message is the denial; empty means that the request passes.
		message string
	}{
		{"204", answers(204), "pass", ""},
		{"204 with headers", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", "y"); w.WriteHeader(204) }, "pass", ""},
		{"a denial", says(403, `{"message": "m"}`), "deny", "m"},
		{"a denial with more", says(403, `{"code": 1, "message": " two\nlines ", "x": []}`), "deny", "two lines"},
		{"a denial that moves the cursor", says(403, `{"message": "a\u001b[2Jb\u202e"}`), "deny", "a\uFFFD[2Jb\uFFFD"},
		{"a denial without a body", answers(403), "deny_without_message", generic},
		{"bad JSON", says(403, `oops`), "deny_without_message", generic},
		{"an array", says(403, `["oops"]`), "deny_without_message", generic},
		{"null", says(403, `null`), "deny_without_message", generic},
		{"no message", says(403, `{"error": "oops"}`), "deny_without_message", generic},
		{"an empty message", says(403, `{"message": " "}`), "deny_without_message", generic},
		{"a message that is none", says(403, `{"message": {"oops": 1}}`), "deny_without_message", generic},
		{"a message of another case", says(403, `{"MESSAGE": "oops"}`), "deny_without_message", generic},
		{"a denial of 10 MB", says(403, `{"message": "`+large+`"}`), "deny_without_message", generic},
		{"a denial that never ends", endless, "deny_without_message", generic},
		{"a denial that says to be longer than it is", raw(fmt.Sprintf(response, 403, 1000, `{"message": "oops"}`)), "deny_without_message", generic},
		{"a denial that says to be shorter than it is", raw(fmt.Sprintf(response, 403, 4, `{"message": "oops"}`)), "deny_without_message", generic},
		{"200", answers(200), "status", failed},
		{"200 with a message", says(200, `{"message": "oops"}`), "status", failed},
		{"200 of 10 MB", says(200, large), "status", failed},
		{"401", answers(401), "status", failed},
		{"404", answers(404), "status", failed},
		{"500", says(500, "oops"), "status", failed},
		{"500 that says to be longer than it is", raw(fmt.Sprintf(response, 500, 1000, "oops")), "status", failed},
		{"a status that there is not", raw(fmt.Sprintf(response, 999, 0, "")), "status", failed},
		{"other protocols", raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), "status", failed},
		{"no HTTP", raw("oops\r\n\r\n"), "broken", failed},
		{"no answer", raw(""), "broken", failed},
		{"half a header", raw("HTTP/1.1 204 No Con"), "broken", failed},
		{"two lengths", raw("HTTP/1.1 403 X\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\noops"), "broken", failed},
		{"a header of 10 MB", raw("HTTP/1.1 204 X\r\nX: " + large + "\r\n\r\n"), "broken", failed},
		{"reset", hijacked(reset), "broken", failed},
		{"a redirect", http.RedirectHandler("http://169.254.169.254/", http.StatusTemporaryRedirect).ServeHTTP, "redirect", failed},
		{"a redirect without a place", answers(308), "redirect", failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			service := newService(t, c.answer)
			checkResponse(t, service.URL, c.outcome, c.message, nil)
		})
	}
}

// checkResponse decides by a service that is right and wrong to trust in its errors.
func checkResponse(t *testing.T, endpoint, outcome, message string, change func(*extservice.Config)) {
	t.Helper()
	denies := strings.HasPrefix(outcome, "deny")
	for _, allowOnError := range []bool{false, true} {
		m := newMeter()
		s, _ := deciding(t, rules("", serviceRule(endpoint, allowOnError)), func(c *sidecar.Config) {
			c.Meters = m
			if change != nil {
				change(&c.External)
			}
		})
		d := s.Check(t.Context(), lease(creation, time.Hour))
		allowed := message == "" || !denies && allowOnError
		if (d.Effect == authz.Allow) != allowed || d.Effect == authz.Deny && d.Reason != message {
			t.Errorf("allow_on_error %v: got %+v; want the denial %q", allowOnError, d, message)
		}
		if failure := !allowed && !denies; failure != (d.Failure == authz.FailureExternal) {
			t.Errorf("allow_on_error %v: the failure is %q", allowOnError, d.Failure)
		}
		if m.count(t, "understudy.external.calls", label("outcome", outcome), label("call", "check-create")) != 1 {
			t.Errorf("the outcome %s is not counted", outcome)
		}
	}
}

// TestServicesThatCannotBeAsked has those that give no answer at all.
func TestServicesThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	const failed = "The external service gave no decision."
	short := func(c *extservice.Config) { c.Timeout = 50 * time.Millisecond }
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	strange, plain := newTLSServer(t, nil), newService(t, nil)
	for _, c := range []struct {
		name, endpoint, outcome string
		change                  func(*extservice.Config)
	}{
		{"hanging", newService(t, hang).URL, "timeout", short},
		{"accepting nothing", "http://" + silent.Addr().String(), "timeout", short},
		{"a handshake that never comes", "https://" + silent.Addr().String(), "timeout", short},
		{"down", "http://127.0.0.1:1", "connect", nil},
		{"of another authority", strange.URL, "tls", nil},
		{"without TLS", "https://" + plain.authority(), "tls", nil},
		{"of no such name", "http://usage.invalid", "connect", noNames},
		{"without its token", plain.URL, "token", func(c *extservice.Config) {
			c.Tokens = map[string]extservice.TokenSource{"http://127.0.0.1": func() (string, error) { return "", errors.New("no file") }}
		}},
		{"with a token that would go in the clear", plain.URL, "token", func(c *extservice.Config) {
			c.Tokens = map[string]extservice.TokenSource{"127.0.0.1": func() (string, error) { return "secret", nil }}
		}},
		{"with a token of its port that would go in the clear", plain.URL, "token", func(c *extservice.Config) {
			c.Tokens = map[string]extservice.TokenSource{plain.authority(): func() (string, error) { return "secret", nil }}
		}},
		{"with a token that is no header", plain.URL, "broken", func(c *extservice.Config) {
			c.Tokens = map[string]extservice.TokenSource{"http://127.0.0.1": func() (string, error) { return "a\r\nX: y", nil }}
		}},
		{"on this machine", plain.URL, "address_refused", func(c *extservice.Config) { c.AllowAddresses = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			checkResponse(t, c.endpoint, c.outcome, failed, c.change)
		})
	}
	t.Cleanup(func() {
		if n := len(plain.calls()); n != 0 {
			t.Errorf("a service was called %d times without what it needs", n)
		}
	})
}

// TestADenialThatNeverEndsIsOne: the service has said 403 before it hung. The wait for
// the rest ends when that is known here, and at no time before.
func TestADenialThatNeverEndsIsOne(t *testing.T) {
	t.Parallel()
	for _, allowOnError := range []bool{false, true} {
		m := newMeter()
		ctx, cancel := withCancel(t)
		s, _ := deciding(t, rules("", serviceRule(newService(t, trickle).URL, allowOnError)), func(c *sidecar.Config) {
			c.Meters, c.External.Tracer = m, statusTracer{known: cancel}
		})
		d := s.Check(ctx, lease(creation, time.Hour))
		if d.Effect != authz.Deny || d.Failure != "" || d.Reason != "The external service denied the request." {
			t.Errorf("allow_on_error %v: got %+v; want the denial", allowOnError, d)
		}
		if m.count(t, "understudy.external.calls", label("outcome", "deny_without_message")) != 1 {
			t.Errorf("allow_on_error %v: the denial is not counted", allowOnError)
		}
	}
}

// statusTracer calls known when the status of an answer is there, and its body is not
// read yet.
type statusTracer struct {
	noop.Tracer
	known func()
}

func (s statusTracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	span := statusSpan{known: s.known}
	return trace.ContextWithSpan(ctx, span), span
}

type statusSpan struct {
	noop.Span
	known func()
}

func (s statusSpan) SetAttributes(all ...attribute.KeyValue) {
	for _, a := range all {
		if a.Key == "http.response.status_code" {
			s.known()
		}
	}
}

// newTLSServer starts a service with a certificate of its own authority, which lets
// everything pass.
func newTLSServer(t testing.TB, config *tls.Config) *httptest.Server {
	s := httptest.NewUnstartedServer(answers(204))
	s.TLS = config
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// TestTrustedTLS shows that the failures of TLS above are those of the certificate.
func TestTrustedTLS(t *testing.T) {
	t.Parallel()
	service := newTLSServer(t, nil)
	checkResponse(t, service.URL, "pass", "", func(c *extservice.Config) {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AddCert(service.Certificate())
	})
	old := newTLSServer(t, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	checkResponse(t, old.URL, "tls", "The external service gave no decision.", func(c *extservice.Config) {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AddCert(old.Certificate())
	})
}

// TestTokensGoToTheirHostAlone is Z-19: neither a redirect nor another service, nor
// another port of the same host, gets a token that is not for it.
func TestTokensGoToTheirHostAlone(t *testing.T) {
	t.Parallel()
	other := newService(t, nil)
	service := newService(t, http.RedirectHandler(other.URL+"/v1/check-create", http.StatusTemporaryRedirect).ServeHTTP)
	s, _ := deciding(t, rules("", serviceRuleNamed("a", service.URL)), func(c *sidecar.Config) {
		c.External.Tokens = map[string]extservice.TokenSource{
			strings.ToUpper("http://" + service.authority()): func() (string, error) { return "secret", nil },
		}
	})
	if d := s.Check(t.Context(), lease(creation, time.Hour)); d.Failure != authz.FailureExternal {
		t.Errorf("got %+v; want a failure", d)
	}
	if calls := service.calls(); len(calls) != 1 || calls[0].header.Get("X-Auth-Token") != "secret" {
		t.Errorf("the service was asked %v", calls)
	}
	if n := len(other.calls()); n != 0 {
		t.Errorf("the redirect was followed")
	}
	s, _ = deciding(t, rules("", serviceRule(other.URL, false)), func(c *sidecar.Config) {
		c.External.Tokens = map[string]extservice.TokenSource{
			"http://" + service.authority(): func() (string, error) { return "secret", nil },
		}
	})
	s.Check(t.Context(), lease(creation, time.Hour))
	if calls := other.calls(); len(calls) != 1 || calls[0].header.Values("X-Auth-Token") != nil {
		t.Errorf("the other service was asked %v", calls)
	}
}

// TestConnectionsAreReused asks one service many times, one after the other.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	connections := make(map[string]bool)
	service := newService(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		connections[r.RemoteAddr] = true
		odd := len(connections)%2 == 1
		mu.Unlock()
		if odd {
			says(403, `{"message": "no"}`)(w, r)
			return
		}
		w.WriteHeader(204)
	})
	s, _ := deciding(t, rules("", serviceRule(service.URL, false)), nil)
	for range 20 {
		s.Check(t.Context(), lease(creation, time.Hour))
	}
	mu.Lock()
	defer mu.Unlock()
	if len(connections) >= 20 {
		t.Errorf("%d connections for 20 calls", len(connections))
	}
}

// TestHangingServicesHoldUpNobodyElse asks a service that hangs as often as it may be,
// and meanwhile everyone else.
func TestHangingServicesHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	const hanging = 200
	arrived, release := make(chan struct{}, hanging+1), make(chan struct{})
	stuck := newService(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		w.WriteHeader(204)
	})
	lively := newService(t, nil)
	m, feed := newMeter(), newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("web", allowIf(onlyGET))})
	feed.put(otherName("stuck"), authz.PolicyState{Policy: rules("", serviceRule(stuck.URL, false))})
	feed.put(otherName("lively"), authz.PolicyState{Policy: rules("", serviceRule(lively.URL, false))})
	s, _ := start(t, feed, func(c *sidecar.Config) {
		c.Meters, c.External = m, loopbackAllowed()
		c.External.Concurrency = hanging
	})
	testkit.Closed(t, "s is ready", s.Ready())
	ask := func(policy authz.PolicyID) authz.Decision {
		r := envoys("GET")
		r.Policy = policy
		return s.Check(t.Context(), r)
	}
	results := make(chan authz.Decision, hanging)
	for range hanging {
		go func() { results <- ask("stuck") }()
	}
	for range hanging {
		testkit.Closed(t, "the service to be asked", arrived)
	}
	for range 1000 {
		if d := ask("web"); d.Effect != authz.Allow {
			t.Fatalf("got %+v; want it allowed", d)
		}
	}
	if d := ask("lively"); d.Effect != authz.Allow {
		t.Errorf("got %+v; want it allowed", d)
	}
	if d := ask("stuck"); d.Failure != authz.FailureExternal {
		t.Errorf("got %+v; want that there is no room", d)
	}
	if len(results) > 0 {
		t.Error("a call was answered before the others: the test shows nothing")
	}
	close(release)
	for range hanging {
		if d := testkit.Receive(t, "a request to end", results); d.Effect != authz.Allow {
			t.Errorf("got %+v; want it allowed", d)
		}
	}
	if got := m.count(t, "understudy.external.calls", label("outcome", "busy")); got != 1 {
		t.Errorf("%d calls had no room, want 1", got)
	}
	if d := ask("stuck"); d.Effect != authz.Allow {
		t.Errorf("got %+v; want that the room is given back", d)
	}
}

func otherName(id authz.PolicyID) authz.PolicyName { return location.Policy(id) }

// TestWhoIsGoneIsNotWaitedFor cancels a call that is under way.
func TestWhoIsGoneIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	service := newService(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		hang(w, r)
	})
	m := newMeter()
	s, _ := deciding(t, rules("", serviceRule(service.URL, false)), func(c *sidecar.Config) { c.Meters = m })
	ctx, cancel := withCancel(t)
	result := make(chan authz.Decision)
	go func() { result <- s.Check(ctx, lease(creation, time.Hour)) }()
	testkit.Closed(t, "the service to be asked", arrived)
	cancel()
	if d := testkit.Receive(t, "the request to end", result); d.Effect != authz.Deny || d.Failure != authz.FailureCanceled {
		t.Errorf("got %+v; want it cancelled", d)
	}
	if got := m.count(t, "understudy.external.calls", label("outcome", "canceled")); got != 1 {
		t.Errorf("%d calls were cancelled, want 1", got)
	}
}

// TestEnvoyIsNotMadeToWait: the time for a decision of Envoy's bounds the calls of
// services too; that of a reservation does not.
func TestEnvoyIsNotMadeToWait(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	service := newService(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		w.WriteHeader(204)
	})
	s, _ := deciding(t, rules("", serviceRule(service.URL, false)), func(c *sidecar.Config) {
		c.DecisionTimeout = 20 * time.Millisecond
	})
	result := make(chan authz.Decision)
	go func() { result <- s.Check(t.Context(), lease(creation, time.Hour)) }()
	if d := s.Check(t.Context(), envoys("GET")); d.Failure != authz.FailureExternal {
		t.Errorf("got %+v; want a failure", d)
	}
	close(release)
	if d := testkit.Receive(t, "the request to end", result); d.Effect != authz.Allow {
		t.Errorf("got %+v; want it allowed", d)
	}
}

package reservation_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"understudy/authz"
	"understudy/authz/reservation"
	"understudy/cmd/testkit"
)

// small is the least that a create has.
const small = `{"context": {"user_id": "u", "project_id": "p"}, "lease": {}}`

// maxBody bounds the bodies of TestStatuses, in bytes.
const maxBody = 8 << 10

// statusRow is a request and the status that it gets.
type statusRow struct {
	name string
	call call
	want int
}

// named is a create with a lease of this name: "no" is denied, any other is allowed.
func named(name string) string { return strings.Replace(small, "{}", `{"name": "`+name+`"}`, 1) }

// nested is a create with so many arrays in each other.
func nested(n int) string {
	return `{"context": {}, "lease": {"name": "a", "x": ` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}`
}

// updated is an update of a lease of this name.
func updated(name string) call {
	both := strings.TrimSuffix(small, "}") + `, "current_lease": {}}`
	return call{path: "/v1/check-update", body: strings.Replace(both, "{}", `{"name": "`+name+`"}`, 1)}
}

// TestStatuses has a row for each status of the package's doc, with the requirement that
// it is, and for what is accepted next to it.
func TestStatuses(t *testing.T) {
	s, _, _ := deciding(t, live(`allow if input.lease.name != "no"`))
	p := serve(t, s, func(c *reservation.Config) { c.MaxBody = maxBody })
	for _, c := range slices.Concat(decidedRows(), acceptedRows(), refusedRows(), badBodyRows()) {
		t.Run(c.name, func(t *testing.T) {
			response := c.call.send(t, p)
			if response.StatusCode != c.want {
				t.Fatalf("got %s, want %d", response.Status, c.want)
			}
			if c.want != 204 {
				messageIn(t, response)
				return
			}
			if response.Body != "" || response.Header.Get("Content-Type") != "" {
				t.Errorf("204 has the body %q of the type %q", response.Body, response.Header.Get("Content-Type"))
			}
		})
	}
}

// decidedRows are requests that reach the policy.
func decidedRows() []statusRow {
	return []statusRow{
		{"Z-30 a create is allowed", call{body: named("a")}, 204},
		{"Z-31 a create is denied", call{body: named("no")}, 403},
		{"Z-31 a failure is a denial", call{body: small}, 403},
		{"without the version", call{path: "/check-create", body: named("a")}, 204},
		{"Z-32 an update", updated("a"), 204},
		{"Z-32 an update is denied", updated("no"), 403},
		{"Z-33 an end", call{path: "/v1/on-end", body: named("no")}, 204},
	}
}

// acceptedRows are unusual requests that reach the policy all the same.
func acceptedRows() []statusRow {
	return []statusRow{
		{"Z-35 unknown fields", call{body: `{"context": {"x": 1}, "lease": {"name": "a", "y": null}, "z": [], "current_lease": 7}`}, 204},
		{"a character set", call{mediaType: "application/json; charset=UTF-8", body: named("a")}, 204},
		{"a type in capitals", call{mediaType: "Application/JSON", body: named("a")}, 204},
		{"space around it", call{body: " \n" + named("a") + "\n "}, 204},
		{"as deep as may be", call{body: nested(62)}, 204},
		{"as large as may be", call{body: named("a") + strings.Repeat(" ", maxBody-len(named("a")))}, 204},
	}
}

// refusedRows are refused before their body is parsed.
func refusedRows() []statusRow {
	return []statusRow{
		{"Z-34 no token", call{token: none, body: named("a")}, 401},
		{"Z-34 a wrong token", call{token: "0123456789abcdeX", body: named("a")}, 401},
		{"a token and more", call{token: token + "0", body: named("a")}, 401},
		{"a wrong token, and all else too", call{token: "x", method: "GET", path: "/nothing", mediaType: "text/plain"}, 401},
		{"another path", call{path: "/v1/check-delete", body: named("a")}, 404},
		{"the version twice", call{path: "/v1/v1/check-create", body: named("a")}, 404},
		{"a slash at the end", call{path: "/v1/check-create/", body: named("a")}, 404},
		{"the API of policies", call{path: "/v1/projects/p1"}, 404},
		{"Z-35 GET", call{method: "GET"}, 405},
		{"PUT", call{method: "PUT", body: named("a")}, 405},
		{"OPTIONS", call{method: "OPTIONS"}, 405},
		{"Z-35 a form", call{mediaType: "application/x-www-form-urlencoded", body: named("a")}, 415},
		{"no type", call{mediaType: none, body: named("a")}, 415},
		{"another character set", call{mediaType: "application/json; charset=latin1", body: named("a")}, 415},
		{"compressed", call{headers: map[string]string{"Content-Encoding": "gzip"}, body: named("a")}, 415},
		{"too large", call{body: strings.Repeat(" ", maxBody) + named("a")}, 413},
	}
}

// badBodyRows have a body that is not what the call needs.
func badBodyRows() []statusRow {
	return []statusRow{
		{"nothing", call{}, 400},
		{"Z-35 no JSON", call{body: "lease"}, 400},
		{"JSON and more", call{body: named("a") + "{}"}, 400},
		{"NaN", call{body: `{"context": {}, "lease": {"x": NaN}}`}, 400},
		{"a comma too many", call{body: `{"context": {}, "lease": {"x": [1,]}}`}, 400},
		{"a name twice", call{body: `{"context": {}, "lease": {"name": "no"}, "lease": {"name": "a"}}`}, 400},
		{"a name twice, written in two ways", call{body: `{"context": {}, "lease": {"name": "no", "n\u0061me": "a"}}`}, 400},
		{"no UTF-8", call{body: "{\"context\": {}, \"lease\": {\"name\": \"\xff\"}}"}, 400},
		{"too deep", call{body: nested(63)}, 400},
		{"far too deep", call{body: strings.Repeat("[", maxBody)}, 400},
		{"a number that is none", call{body: `{"context": {}, "lease": {"name": "a", "x": 1e999999999}}`}, 400},
		{"an array", call{body: `[]`}, 400},
		{"no context", call{body: `{"lease": {}}`}, 400},
		{"no lease", call{body: `{"context": {}, "lease": null}`}, 400},
		{"a lease that is a string", call{body: `{"context": {}, "lease": "a"}`}, 400},
		{"Z-32 an update without the current lease", call{path: "/v1/check-update", body: named("a")}, 400},
		{"an update whose current lease is an array", call{path: "/v1/check-update",
			body: `{"context": {}, "lease": {"name": "a"}, "current_lease": []}`}, 400},
	}
}

// TestRefusalsNameTheRule reads what anyone who runs Blazar finds in its log.
func TestRefusalsNameTheRule(t *testing.T) {
	p := serve(t, deciderFunc(yes), nil)
	for _, c := range []struct {
		call        call
		want        string
		header, has string
	}{
		{call{token: none}, "X-Auth-Token", "WWW-Authenticate", `X-Auth-Token realm="reservations"`},
		{call{method: "GET"}, "POST", "Allow", "POST"},
		{call{mediaType: none}, "application/json", "", ""},
		{call{path: "/v1/check-update", body: small}, "The field current_lease is missing; it has to be an object.", "", ""},
		{call{body: `"secret"`}, "The body is a string; it has to be an object with context, lease.", "", ""},
	} {
		response := c.call.send(t, p)
		if message := messageIn(t, response); !strings.Contains(message, c.want) || strings.Contains(message, "secret") {
			t.Errorf("%s says %q, not %q", response.Status, message, c.want)
		}
		if got := response.Header.Get(c.header); got != c.has {
			t.Errorf("%s has %s: %q, want %q", response.Status, c.header, got, c.has)
		}
	}
}

// TestTheTokenIsCheckedOnEachCall is Z-34. It also rotates it.
func TestTheTokenIsCheckedOnEachCall(t *testing.T) {
	p := serve(t, deciderFunc(yes), func(c *reservation.Config) { c.Tokens = []string{"old", "new"} })
	for _, step := range []struct {
		tokens []string
		want   map[string]int
	}{
		{nil, map[string]int{"old": 204, "new": 204, "newer": 401, "OLD": 401}},
		{[]string{"new"}, map[string]int{"old": 401, "new": 204}},
		{[]string{"newer", "new"}, map[string]int{"old": 401, "new": 204, "newer": 204}},
	} {
		if step.tokens != nil {
			if err := p.SetTokens(step.tokens); err != nil {
				t.Fatal(err)
			}
		}
		for token, want := range step.want {
			for _, path := range []string{"/v1/check-create", "/v1/on-end"} {
				if got := (call{path: path, token: token, body: small}).send(t, p).StatusCode; got != want {
					t.Errorf("%s with the token %s is %d, want %d", path, token, got, want)
				}
			}
			if got := (call{path: "/v1/check-update", token: token}).send(t, p).StatusCode; (got == 401) != (want == 401) {
				t.Errorf("check-update with the token %s is %d", token, got)
			}
		}
	}
	if err := p.SetTokens([]string{"a", ""}); err == nil {
		t.Error("an empty token is accepted")
	}
	if got := (call{token: "newer", body: small}).send(t, p).StatusCode; got != 204 {
		t.Errorf("after tokens that are refused, the one before gets %d", got)
	}
	if err := p.SetTokens(nil); err != nil {
		t.Fatal(err)
	}
	if got := (call{token: none, body: small}).send(t, p).StatusCode; got != 204 {
		t.Errorf("where there are no tokens, a call without one gets %d", got)
	}
}

// TestTwoTokenHeadersAreRefused sends the header twice, of which two readers may take one each.
func TestTwoTokenHeadersAreRefused(t *testing.T) {
	p := serve(t, deciderFunc(yes), nil)
	request, err := http.NewRequest("POST", p.url+"/v1/check-create", strings.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "X-Auth-Token": {token, token + "x"}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != 401 {
		t.Errorf("got %s", response.Status)
	}
}

// TestMessages are what Blazar's user reads of a denial.
func TestMessages(t *testing.T) {
	long := strings.Repeat("é", 2000)
	for _, c := range []struct {
		name     string
		decision authz.Decision
		want     string
	}{
		{"the reason", authz.Decision{Reason: "Your project is limited to reserving 1 physical host."}, "Your project is limited to reserving 1 physical host."},
		{"none", authz.Decision{}, "The policy does not allow this reservation."},
		{"nothing to see", authz.Decision{Reason: " \t\u200b"}, "The policy does not allow this reservation."},
		{"lines and tricks", authz.Decision{Reason: "one\r\ntwo\x1b[2J \u202ethree\xff<b>"}, "one  two [2J three<b>"},
		{"too long", authz.Decision{Reason: long}, long[:1020] + "…"},
		{"what is for Envoy", authz.Decision{Reason: "no", HTTPStatus: 404, Body: "not found"}, "no"},
		{"what is wrong with the request", authz.Decision{Failure: authz.FailureRequest, Reason: "The lease's end_date is no date."}, "The lease's end_date is no date."},
		{"a failure", authz.Decision{Failure: authz.FailureError, Reason: "eval_conflict_error: /secret.rego:7"},
			"The policy could not decide about this reservation, so it is not allowed. Ask who runs this cloud."},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := serve(t, deciderFunc(func(context.Context, *authz.Request) authz.Decision { return c.decision }), nil)
			response := call{body: small}.send(t, p)
			if response.StatusCode != 403 {
				t.Fatalf("got %s", response.Status)
			}
			if message := messageIn(t, response); message != c.want {
				t.Errorf("got  %q\nwant %q", message, c.want)
			}
		})
	}
}

// TestAPanicIsADenial shows that Blazar gets an answer at all: it takes a connection
// that is dropped worse than a denial.
func TestAPanicIsADenial(t *testing.T) {
	p := serve(t, deciderFunc(func(context.Context, *authz.Request) authz.Decision { panic("secret") }), nil)
	response := call{body: small}.send(t, p)
	if message := messageIn(t, response); response.StatusCode != 403 || strings.Contains(message, "secret") {
		t.Errorf("got %s %q", response.Status, message)
	}
	if got := (call{path: "/v1/on-end", body: small}).send(t, p).StatusCode; got != 204 {
		t.Errorf("an end gets %d", got)
	}
	if log := p.log.String(); strings.Count(log, "level=ERROR") != 2 || !strings.Contains(log, "TestAPanicIsADenial") || strings.Contains(log, "secret") {
		t.Errorf("the log is\n%s", log)
	}
}

// TestTooManyCalls is Z-38. It holds one call up, so that there is no room for another
// of its kind; ends and checks do not take it from each other.
func TestTooManyCalls(t *testing.T) {
	checks, ends := []string{"/v1/check-create", "/check-update"}, []string{"/v1/on-end", "/on-end"}
	for _, c := range []struct{ full, free []string }{{checks, ends}, {ends, checks}} {
		testTooManyCalls(t, c.full, c.free)
	}
}

func testTooManyCalls(t *testing.T, full, free []string) {
	update := strings.Replace(small, "}}", "}, \"current_lease\": {}}", 1)
	asked, release := make(chan struct{}), make(chan struct{})
	p := serve(t, deciderFunc(func(_ context.Context, r *authz.Request) authz.Decision {
		if slices.Contains(full, r.Path) {
			asked <- struct{}{}
			<-release
		}
		return authz.Decision{Effect: authz.Allow}
	}), func(c *reservation.Config) { c.Concurrency = 1 })
	first := make(chan int, 1)
	go func() { first <- (call{path: full[0], body: update}).send(t, p).StatusCode }()
	testkit.Closed(t, "the service to be asked", asked)
	for _, path := range free {
		if got := (call{path: path, body: update}).send(t, p).StatusCode; got != 204 {
			t.Errorf("beside %s, %s gets %d", full[0], path, got)
		}
	}
	for _, path := range full {
		response := call{path: path, body: update}.send(t, p)
		if response.StatusCode != 429 || response.Header.Get("Retry-After") == "" {
			t.Errorf("%s gets %s", path, response.Status)
		}
		if got := (call{path: path, token: "x"}).send(t, p).StatusCode; got != 401 {
			t.Errorf("%s without the token gets %d", path, got)
		}
	}
	close(release)
	if got := testkit.Receive(t, "the first request to end", first); got != 204 {
		t.Errorf("the first gets %d", got)
	}
	go func() { <-asked }()
	if got := (call{path: full[0], body: update}).send(t, p).StatusCode; got != 204 {
		t.Errorf("when there is room again, a call gets %d", got)
	}
}

// TestABodyThatDoesNotCome ends before its length, or is not sent to its end in time.
func TestABodyThatDoesNotCome(t *testing.T) {
	h, err := reservation.New(deciderFunc(yes), reservation.Config{Policy: "leases"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	server.Config.ReadHeaderTimeout, server.Config.ReadTimeout = testkit.Patience, 50*time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	for name, end := range map[string]func(*net.TCPConn) error{
		"it ends": (*net.TCPConn).CloseWrite, "it waits": func(*net.TCPConn) error { return nil },
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(conn, "POST /v1/check-update HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		if err := errors.Join(err, end(conn.(*net.TCPConn))); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := errors.Join(response.Body.Close(), conn.Close()); err != nil || response.StatusCode != 400 {
			t.Errorf("%s: got %s, %v", name, response.Status, err)
		}
	}
}

// TestADecisionIsASpan of the call's own trace.
func TestADecisionIsASpan(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	p := serve(t, deciderFunc(yes), func(c *reservation.Config) {
		c.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test")
	})
	id := strings.Repeat("ab", 16)
	call{body: small, headers: map[string]string{"traceparent": "00-" + id + "-" + strings.Repeat("cd", 8) + "-01"}}.send(t, p)
	got := spans.GetSpans()
	if len(got) != 1 || got[0].Name != "reservation check-create" || got[0].SpanContext.TraceID().String() != id {
		t.Errorf("the spans are %v", got)
	}
}

func TestCallsAreCounted(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	p := serve(t, deciderFunc(yes), func(c *reservation.Config) {
		c.Meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	})
	for _, c := range []call{{body: small}, {body: small}, {token: "x"}, {path: "/v1/on-end", body: "x"}, {path: "/x"}} {
		c.send(t, p)
	}
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	for _, point := range callsOf(data) {
		name, _ := point.Attributes.Value("call")
		status, _ := point.Attributes.Value("status")
		got[name.AsString()+" "+status.String()] = point.Value
	}
	for labels, want := range map[string]int64{
		"check-create 204": 2, "check-create 401": 1, "on-end 400": 1, " 404": 1, "check-update 401": 0, "check-update 429": 0,
	} {
		if n, there := got[labels]; !there || n != want {
			t.Errorf("%q is %d, want %d", labels, n, want)
		}
	}
}

// callsOf returns the series of the calls.
func callsOf(data metricdata.ResourceMetrics) []metricdata.DataPoint[int64] {
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "understudy.reservation.calls" {
				return sum.DataPoints
			}
		}
	}
	return nil
}

func TestNewRefuses(t *testing.T) {
	for want, c := range map[string]reservation.Config{
		"Policy":      {},
		"BasePath":    {Policy: "p", BasePath: "blazar/"},
		"MaxBody":     {Policy: "p", MaxBody: -1},
		"Concurrency": {Policy: "p", Concurrency: -1},
		"a token":     {Policy: "p", Tokens: []string{"a\nb"}},
	} {
		if _, err := reservation.New(deciderFunc(yes), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: the error is %v, want %s", c, err, want)
		}
	}
}

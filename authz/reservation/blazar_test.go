package reservation_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/authz"
	"understudy/authz/reservation"
)

// operations :: the last segment of a path → input.operation.
var operations = map[string]string{"check-create": "check_create", "check-update": "check_update", "on-end": "on_end"}

// exact reads JSON with numbers as they are written.
func exact(t *testing.T, text string) (value map[string]any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// TestAPolicySeesWhatBlazarSent is Z-36. It sends the examples of Blazar's specification and the
// bodies of its code, and reads the input in the decision log: what was sent, and the
// operation.
func TestAPolicySeesWhatBlazarSent(t *testing.T) {
	s, _, decisions := deciding(t, live(`allow if input.context.user_id`))
	p := serve(t, s, nil)
	for _, source := range []string{"spec", "blazar"} {
		for name, operation := range operations {
			t.Run(source+" "+name, func(t *testing.T) {
				sent := fixture(t, source+"-"+name)
				client := blazar{base: p.url + "/v1/", token: token}
				if message, err := client.ask(name, sent); err != nil || message != "" {
					t.Fatalf("denied with %q, %v", message, err)
				}
				d := decisions.await(t)
				event, want := exact(t, d.body), exact(t, sent)
				want["operation"] = operation
				if diff := cmp.Diff(want, event["input"]); diff != "" {
					t.Errorf("input (-want +got):\n%s", diff)
				}
				if event["decision_id"] == "" || event["path"] != "leases/allow" || event["result"] != true || event["masked"] != nil {
					t.Errorf("the event is %s", d.body)
				}
			})
		}
	}
}

func TestNumbersAreExact(t *testing.T) {
	s, _, _ := deciding(t, live(`allow if sprintf("%v", [input.lease.n]) == "12345678901234567890123"`))
	p := serve(t, s, nil)
	if got := (call{body: `{"context": {}, "lease": {"n": 12345678901234567890123}}`}).send(t, p).StatusCode; got != 204 {
		t.Errorf("got %d", got)
	}
}

// TestWhatIsAsked pins the request that is made of a call.
func TestWhatIsAsked(t *testing.T) {
	var asked *authz.Request
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	p := serve(t, deciderFunc(func(_ context.Context, r *authz.Request) authz.Decision {
		asked = r
		return authz.Decision{Effect: authz.Allow}
	}), func(c *reservation.Config) { c.Now = func() time.Time { return now } })
	traced := map[string]string{"traceparent": "00-" + strings.Repeat("ab", 16) + "-" + strings.Repeat("cd", 8) + "-01"}
	body := fixture(t, "blazar-check-update")
	if got := (call{path: "/v1/check-update", body: body, headers: traced}).send(t, p).StatusCode; got != 204 {
		t.Fatalf("got %d", got)
	}
	got := [...]any{asked.Operation, asked.Policy, asked.Time, asked.Method, asked.Path, asked.Host, asked.Principal, asked.Size}
	want := [...]any{authz.OperationCheckUpdate, authz.PolicyID("leases"), now, "check-update", "/v1/check-update",
		strings.TrimPrefix(p.url, "http://"), "c631173edec04bb7a0c3f7711153c06c", len(body)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(asked.ID) != 36 || asked.Span().TraceID().String() != strings.Repeat("ab", 16) {
		t.Errorf("the ID is %q, the trace %s", asked.ID, asked.Span().TraceID())
	}
	r, document := asked.Reservation, exact(t, body)
	if diff := cmp.Diff([...]any{document["context"], document["lease"], document["current_lease"], "a0b86a98b0d343cb948e00689182efd4"},
		[...]any{any(r.Context), any(r.Lease), any(r.Current), r.Project}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFactsOfALease reads dates and projects. A date is in the layout of RFC 3339.
func TestFactsOfALease(t *testing.T) {
	const start, end = "2026-11-21T00:04:00Z", "2026-11-22T12:00:00Z"
	for _, c := range []struct {
		name, lease, current string
		start, end, invalid  string
	}{
		{name: "as Blazar sends it", lease: `{"start_date": "2026-11-21T00:04:00", "end_date": "2026-11-22T12:00:00"}`, start: start, end: end},
		{name: "as its specification has it", lease: `{"start_date": "2026-11-21 00:04", "end_time": "2026-11-22 12:00"}`, start: start, end: end},
		{name: "as its prose has it", lease: `{"start_time": "2026-11-21 00:04", "end_time": "2026-11-22 12:00"}`, start: start, end: end},
		{name: "with zones", lease: `{"start_date": "2026-11-21T01:04:00+01:00", "end_date": "2026-11-22T12:00:00Z"}`, start: start, end: end},
		{name: "with other zones", lease: `{"start_date": "2026-11-20T19:04-0500", "end_date": "2026-11-22 12:00Z"}`, start: start, end: end},
		{name: "with fractions", lease: `{"start_date": "2026-11-21T00:04:00.25", "end_date": "2026-11-22 12:00:00.000001+00:00"}`,
			start: "2026-11-21T00:04:00.25Z", end: "2026-11-22T12:00:00.000001Z"},
		{name: "two names, one date", lease: `{"end_date": "2026-11-22T12:00:00", "end_time": "2026-11-22 12:00"}`, end: end},
		{name: "nothing", lease: `{}`},
		{name: "null", lease: `{"start_date": null, "end_date": null}`},
		{name: "an update that changes the end", lease: `{"end_date": "2026-11-22T12:00:00"}`,
			current: `{"start_date": "2026-11-21T00:04:00", "end_date": "2026-11-21T12:00:00"}`, start: start, end: end},
		{name: "an update by another name", lease: `{"end_time": "2026-11-22 12:00"}`,
			current: `{"start_date": "2026-11-21T00:04:00", "end_date": "2026-11-21T12:00:00"}`, start: start, end: end},
		{name: "an update that changes neither", lease: `{"reservations": []}`,
			current: `{"start_date": "2026-11-21T00:04:00", "end_date": "2026-11-22T12:00:00"}`, start: start, end: end},
		{name: "two dates", lease: `{"start_date": "2026-11-21 00:04", "end_date": "2026-11-22T12:00:00", "end_time": "2026-11-23 12:00"}`,
			start: start, invalid: "two dates for its end"},
		{name: "no date", lease: `{"start_date": "now", "end_date": "2026-11-22T12:00:00"}`, end: end, invalid: "start_date is no date"},
		{name: "no string", lease: `{"start_date": 7, "end_date": {}}`, invalid: "start_date is no date"},
		{name: "no such day", lease: `{"end_date": "2026-02-30T12:00:00"}`, invalid: "end_date is no date"},
		{name: "the beginning of time", lease: `{"end_date": "0001-01-01T00:00:00"}`, invalid: "end_date is no date"},
		{name: "no date, nor in the current lease", lease: `{"end_date": "secret"}`, current: `{"end_date": "2026-11-21T12:00:00"}`, invalid: "end_date is no date"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r *authz.Reservation
			p := serve(t, deciderFunc(func(_ context.Context, asked *authz.Request) authz.Decision {
				r = asked.Reservation
				return authz.Decision{Effect: authz.Allow}
			}), nil)
			asks := call{body: `{"context": {"project_id": "p"}, "lease": ` + c.lease + `}`}
			if c.current != "" {
				asks = call{path: "/v1/check-update", body: `{"context": {"project_id": "p"}, "lease": ` + c.lease + `, "current_lease": ` + c.current + `}`}
			}
			if got := asks.send(t, p).StatusCode; got != 204 {
				t.Fatalf("got %d", got)
			}
			if diff := cmp.Diff([...]string{c.start, c.end}, [...]string{moment(r.Start), moment(r.End)}); diff != "" {
				t.Errorf("start and end (-want +got):\n%s", diff)
			}
			if (c.invalid == "") != (r.Invalid == "") || !strings.Contains(r.Invalid, c.invalid) || strings.Contains(r.Invalid, "secret") {
				t.Errorf("what is wrong is %q, want %q", r.Invalid, c.invalid)
			}
			if (r.Current == nil) != (c.current == "") {
				t.Errorf("the current lease is %v", r.Current)
			}
		})
	}
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// TestProjectIsThatOfTheContext shows that a lease cannot name the project that a policy
// may exempt.
func TestProjectIsThatOfTheContext(t *testing.T) {
	for who, want := range map[string]string{`{"project_id": "p"}`: "p", `{}`: "", `{"project_id": 7}`: ""} {
		p := serve(t, deciderFunc(func(_ context.Context, asked *authz.Request) authz.Decision {
			if asked.Reservation.Project != want || asked.Principal != "" {
				t.Errorf("%s: the project is %q, the principal %q", who, asked.Reservation.Project, asked.Principal)
			}
			return authz.Decision{Effect: authz.Allow}
		}), nil)
		call{path: "/v1/check-update", body: `{"context": ` + who +
			`, "lease": {"project_id": "q", "user_id": "v"}, "current_lease": {"project_id": "r"}}`}.send(t, p)
	}
}

// TestBlazarsFilter is the filter's own logic against each base URL that it may be
// given.
func TestBlazarsFilter(t *testing.T) {
	s, _, _ := deciding(t, live(`allow := {"allowed": input.lease.end_date < "2026-11-22", "reason": "Leases end tomorrow."}`))
	short := fixture(t, "blazar-check-create")
	long := strings.ReplaceAll(short, "2026-11-21T12:04:00", "2026-11-23T12:04:00")
	for _, c := range []struct{ basePath, base string }{
		{"", "/v1/"}, {"", "/v1"}, {"", "/"}, {"/", "/v1/"},
		{"/blazar", "/blazar/v1/"}, {"/blazar/", "/blazar/v1"}, {"/blazar", "/blazar/"},
	} {
		t.Run(c.basePath+" "+c.base, func(t *testing.T) {
			p := serve(t, s, func(config *reservation.Config) { config.BasePath = c.basePath })
			client := blazar{base: p.url + c.base, token: token}
			for _, step := range []struct{ name, body, want string }{
				{"check-create", short, ""},
				{"check-create", long, "Leases end tomorrow."},
				{"check-update", fixture(t, "blazar-check-update"), "Leases end tomorrow."},
				{"on-end", fixture(t, "blazar-on-end"), ""},
			} {
				message, err := client.ask(step.name, step.body)
				if err != nil || message != step.want {
					t.Errorf("%s: %q, %v; want %q", step.name, message, err, step.want)
				}
			}
			for what, other := range map[string]blazar{
				"no token": {base: client.base}, "a wrong token": {base: client.base, token: "x"}, "another path": {base: p.url + "/other/", token: token},
			} {
				if message, err := other.ask("check-create", short); err != nil || message != generic {
					t.Errorf("%s: %q, %v; want Blazar's own text", what, message, err)
				}
			}
		})
	}
}

// TestRefusalIsReadByCallerThatSendsFirst sends bodies that are larger than what a connection
// holds, over one that is read only when all is sent: if the answer came with a reset,
// Blazar would put the lease into ERROR.
func TestRefusalIsReadByCallerThatSendsFirst(t *testing.T) {
	p := serve(t, deciderFunc(yes), func(c *reservation.Config) { c.MaxBody = 8 << 20 })
	large := `{"context": {}, "lease": {"name": "` + strings.Repeat("x", 8<<20) + `"}}`
	for want, c := range map[int]struct {
		client blazar
		name   string
		body   string
	}{
		413: {blazar{p.url + "/v1/", token}, "check-create", large},
		401: {blazar{p.url + "/v1/", "x"}, "check-create", large[:7<<20]},
		404: {blazar{p.url + "/v1/", token}, "check-nothing", large[:7<<20]},
	} {
		response, err := c.client.post(c.name, c.body)
		if err != nil || response.StatusCode != want {
			t.Errorf("got %q, %v; want %d", response.Status, err, want)
		}
	}
}

// TestWithoutAPolicyBlazarIsAllowed: a chain without filters passes, whatever Envoy's
// checks get.
func TestWithoutAPolicyBlazarIsAllowed(t *testing.T) {
	for name, feed := range map[string]policies{"no such policy": {}, "no rules": live("")} {
		t.Run(name, func(t *testing.T) {
			s, _, decisions := deciding(t, feed)
			p := serve(t, s, nil)
			for call := range operations {
				if message, err := (blazar{p.url + "/v1/", token}).ask(call, fixture(t, "blazar-"+call)); err != nil || message != "" {
					t.Errorf("%s is denied with %q, %v", call, message, err)
				}
				if d := decisions.await(t); d.attributes["understudy.policy.result"] != "ALLOW" || (d.attributes["understudy.policy.default"] == "true") != (call != "on-end") {
					t.Errorf("%s: the decision is %v", call, d.attributes)
				}
			}
			envoy := s.Check(t.Context(), &authz.Request{ID: "e", Operation: authz.OperationCheck, Policy: "leases", Time: time.Now()})
			if envoy.Effect != authz.Deny || !envoy.Default {
				t.Errorf("Envoy gets %+v", envoy)
			}
		})
	}
}

// TestExperimentsAreRehearsed is Z-37. It changes a limit, its message, and deletes the policy, each
// as an experiment: the live policy decides.
func TestExperimentsAreRehearsed(t *testing.T) {
	limit := func(hosts, message string) string {
		return `allow := {"allowed": input.lease.reservations[0].max <= ` + hosts + `, "reason": "` + message + `"}`
	}
	s, previews, decisions := deciding(t, live(limit("1", "One host."),
		experiment("delete", "d", ""), experiment("message", "m", limit("1", "A single host.")),
		experiment("same", "s", limit("1", "One host.")), experiment("two", "t", limit("2", "Two hosts."))))
	p := serve(t, s, nil)
	for _, c := range []struct {
		name, body, message string
		want                map[string]string
	}{
		{"check-create", fixture(t, "blazar-check-create"), "",
			map[string]string{"delete": "UNCHANGED", "message": "UNCHANGED", "same": "UNCHANGED", "two": "UNCHANGED"}},
		{"check-update", fixture(t, "blazar-check-update"), "One host.",
			map[string]string{"delete": "NEWLY_ALLOWED", "message": "RESPONSE_CHANGED", "same": "UNCHANGED", "two": "NEWLY_ALLOWED"}},
		{"on-end", strings.Replace(fixture(t, "blazar-on-end"), `"max": 1`, `"max": 3`, 1), "",
			map[string]string{"delete": "UNCHANGED", "message": "UNCHANGED", "same": "UNCHANGED", "two": "UNCHANGED"}},
	} {
		if message, err := (blazar{p.url + "/v1/", token}).ask(c.name, c.body); err != nil || message != c.message {
			t.Errorf("%s: %q, %v; want %q", c.name, message, err, c.message)
		}
		id := decisions.await(t).attributes["understudy.decision_id"]
		got := make(map[string]string)
		for range c.want {
			r := previews.await(t)
			a := r.attributes
			got[strings.TrimPrefix(a["understudy.experiment.name"], leases+"/experiments/")] = a["understudy.preview.difference"]
			if a["http.request.method"] != c.name || a["url.path"] != "/v1/"+c.name || a["understudy.principal"] != "c631173edec04bb7a0c3f7711153c06c" ||
				a["understudy.decision_id"] != id || a["understudy.policy.etag"] != "live" {
				t.Errorf("%s: the record is %v", c.name, a)
			}
			if !strings.HasPrefix(r.body, authz.LogPrefix+" {") || strings.Contains(r.body, "keystone") {
				t.Errorf("%s: the record's body is %s", c.name, r.body)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

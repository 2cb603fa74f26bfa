package reservation_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/reservation"
)

// someRules are those that the chains below name.
const someRules = `package m
one := {"allowed": false, "reason": "one"}
two := {"allowed": false, "reason": "two"}
yes := true
broken := {"allowed": "?"}
operation := {"allowed": false, "reason": input.operation}
allocation := {"allowed": false, "reason": input.lease.reservations[0].allocations[0].hypervisor_hostname}
context := {"allowed": false, "reason": concat(" ", [input.context.user_id, input.context.region_name])}
both := {"allowed": false, "reason": concat(" ", [input.current_lease.end_date, input.lease.end_date])}
nothing if input.current_lease.nothing
`

// The project and the user of the bodies of Blazar.
const project, user = "a0b86a98b0d343cb948e00689182efd4", "c631173edec04bb7a0c3f7711153c06c"

// asks is a call of Blazar's.
type asks struct{ name, body string }

// create returns Blazar's call for a lease with other values.
func create(t testing.TB, lease map[string]any) asks {
	return asks{"check-create", changed(t, "blazar-check-create", "lease", lease)}
}

// update returns Blazar's call that makes a lease of so many hours one of others.
func update(t testing.TB, from, to time.Duration) asks {
	body := changed(t, "blazar-check-update", "lease", lasts(to))
	return asks{"check-update", edited(t, body, "current_lease", lasts(from))}
}

func end(t testing.TB) asks { return asks{"on-end", fixture(t, "blazar-on-end")} }

// changed returns a fixture in which an object has other values.
func changed(t testing.TB, name, object string, values map[string]any) string {
	return edited(t, fixture(t, name), object, values)
}

func edited(t testing.TB, body, object string, values map[string]any) string {
	t.Helper()
	var document map[string]map[string]any
	if err := json.Unmarshal([]byte(body), &document); err != nil {
		t.Fatal(err)
	}
	maps.Copy(document[object], values)
	out, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// lasts are the dates of a lease that lasts so long, in Blazar's form.
func lasts(d time.Duration) map[string]any {
	start := time.Date(2026, 11, 21, 0, 4, 0, 0, time.UTC)
	const form = "2006-01-02T15:04:05"
	return map[string]any{"start_date": start.Format(form), "end_date": start.Add(d).Format(form)}
}

// requirement is a row of the tables: what a chain answers to a call of Blazar's.
type requirement struct {
	id string
	// chain names filters as the function of that name reads them.
	chain string
	asks  asks
	// message is what Blazar's user reads; empty if the call passes.
	message string
	// asked is how often the external service is called.
	asked int
	// service answers; nil passes everything.
	service  http.HandlerFunc
	exempted []string
	change   func(*authz.Config)
}

// check asks over HTTP, as Blazar does.
func (r requirement) check(t *testing.T, service *service, url string) {
	t.Helper()
	live := &adminpb.Policy{
		Name: leases, Etag: "live", Rules: filters(t, r.chain, url), ExemptedProjects: r.exempted,
		Modules: map[string]string{"m.rego": someRules},
	}
	changes := []func(*authz.Config){onThisMachine}
	if r.change != nil {
		changes = append(changes, r.change)
	}
	s, _, _ := sidecar(t, policies{leases: {Policy: live}}, changes...)
	p := serve(t, s, nil)
	message, err := blazar{base: p.url + "/v1/", token: token}.ask(r.asks.name, r.asks.body)
	if err != nil || message != r.message {
		t.Errorf("got  %q, %v\nwant %q", message, err, r.message)
	}
	if n := len(service.calls()); n != r.asked {
		t.Errorf("the service is called %d times, want %d", n, r.asked)
	}
}

// run checks each row beside the others, with a service of its own.
func run(t *testing.T, rows []requirement) {
	for _, row := range rows {
		t.Run(row.id, func(t *testing.T) {
			t.Parallel()
			service := newService(t, row.service)
			row.check(t, service, service.URL)
		})
	}
}

// TestRequirementsOfTheChain has a row for each requirement on the chain of filters and
// the filters that only look.
func TestRequirementsOfTheChain(t *testing.T) {
	const hour, day, tenYears = time.Hour, 24 * time.Hour, 87600 * time.Hour
	const exceeded, untold = "The reservation exceeds the maximum length of 24 hours.", "The length of the reservation cannot be told: "
	of := func(d time.Duration) asks { return create(t, lasts(d)) }
	from := func(lease map[string]any) asks { return create(t, lease) }
	named := func(domain string) asks {
		values := map[string]any{"project_name": "lab"}
		if domain != "" {
			values["project_domain_name"] = domain
		}
		return asks{"check-create", changed(t, "blazar-check-create", "context", values)}
	}
	run(t, []requirement{
		{id: "Z-1 the first denial", chain: "rego yes; rego one; rego two", asks: of(hour), message: "one"},
		{id: "Z-1 swapped", chain: "rego two; rego one", asks: of(hour), message: "two"},
		{id: "Z-1 what is behind it is not called", chain: "rego one; usage", asks: of(hour), message: "one"},
		{id: "Z-1 none denies", chain: "rego yes; length 24h; usage", asks: of(hour), asked: 1},
		{id: "Z-3 create", chain: "rego operation", asks: of(hour), message: "check_create"},
		{id: "Z-3 update", chain: "rego operation", asks: update(t, hour, hour), message: "check_update"},
		{id: "Z-3 end", chain: "rego operation", asks: end(t)},
		{id: "Z-4 the allocations", chain: "rego allocation", asks: of(hour), message: "node-1.example.com"},
		{id: "Z-4 the context", chain: "rego context", asks: of(hour), message: user + " RegionOne"},
		{id: "Z-5 both leases", chain: "rego both", asks: update(t, hour, 2*hour), message: "2026-11-21T01:04:00 2026-11-21T02:04:00"},
		{id: "Z-5 the updating user", chain: "rego context", message: "v RegionOne",
			asks: asks{"check-update", changed(t, "blazar-check-update", "context", map[string]any{"user_id": "v"})}},
		{id: "Z-6 a denial", chain: "rego one; length 1m", asks: end(t)},
		{id: "Z-6 every filter is told", chain: "rego one; rego broken; rego nothing; length 1m; usage", asks: end(t), asked: 1, service: says(500, "")},
		{id: "Z-7 a create", chain: "rego two", asks: of(hour), message: "two"},
		{id: "Z-7 an update", chain: "rego two", asks: update(t, hour, hour), message: "two"},
		{id: "Z-8 Z-43 not exempt", chain: "rego one", asks: of(hour), exempted: []string{"p"}, message: "one"},
		{id: "Z-8 Z-43 by ID", chain: "usage; rego one", asks: of(hour), exempted: []string{"p", project}},
		{id: "Z-8 an update by ID", chain: "usage; rego one", asks: update(t, hour, hour), exempted: []string{project}},
		{id: "Z-8 an end by ID", chain: "usage; rego one", asks: end(t), exempted: []string{project}},
		{id: "Z-8 by name and domain", chain: "rego one", asks: named("Default"), exempted: []string{"lab@Default"}},
		{id: "Z-8 another domain", chain: "rego one", asks: named("Other"), exempted: []string{"lab@Default"}, message: "one"},
		{id: "Z-8 no domain", chain: "rego one", asks: named(""), exempted: []string{"lab@Default", "lab"}, message: "one"},
		{id: "Z-9 Z-40 all kinds", chain: "length 240h; usage; rego two", asks: of(day), asked: 1, message: "two"},
		{id: "Z-41 the order of the rules", chain: "length 24h; rego one; usage", asks: of(25 * hour), message: exceeded},
		{id: "Z-41 another order", chain: "rego one; length 24h; usage", asks: of(25 * hour), message: "one"},
		{id: "Z-10 as long as may be", chain: "length 24h", asks: of(day)},
		{id: "Z-10 Z-42 a minute longer", chain: "length 24h", asks: of(day + time.Minute), message: exceeded},
		{id: "Z-11 Z-42 no limit", chain: "length", asks: of(tenYears)},
		{id: "Z-11 a limit of 0", chain: "length 0s", asks: of(tenYears)},
		{id: "Z-12 an update to more", chain: "length 24h", asks: update(t, hour, 25*hour), message: exceeded},
		{id: "Z-12 an update to less", chain: "length 24h", asks: update(t, 25*hour, hour)},
		{id: "Z-13 as Blazar's specification writes dates", chain: "length 24h",
			asks: from(map[string]any{"start_date": "2026-11-21 00:00", "end_date": nil, "end_time": "2026-11-22 00:01"}), message: exceeded},
		{id: "Z-13 with zones", chain: "length 24h",
			asks: from(map[string]any{"start_date": "2026-11-21T00:00:00+02:00", "end_date": "2026-11-22T00:00:00Z"}), message: exceeded},
		{id: "Z-13 zones that make it shorter", chain: "length 24h",
			asks: from(map[string]any{"start_date": "2026-11-21T00:00:00Z", "end_date": "2026-11-22T01:00:00+01:00"})},
		{id: "Z-13 no date", chain: "length 24h", asks: from(map[string]any{"end_date": "soon"}),
			message: untold + "The lease's end_date is no date: it has to be like 2026-11-21 15:04, 2026-11-21T15:04:05 or 2026-11-21T15:04:05Z."},
		{id: "Z-13 none at all", chain: "length 24h", asks: from(map[string]any{"end_date": nil}),
			message: untold + "it needs a start_date and an end_date."},
	})
}

// TestRequirementsOfTheExternalService has a row for each mood of a service: the answer
// that Blazar's user gets, and that with allow_on_error.
func TestRequirementsOfTheExternalService(t *testing.T) {
	const silent = "The external service denied the request."
	const failure = "The policy could not decide about this reservation, so it is not allowed. Ask who runs this cloud."
	large := strings.Repeat("x", 10<<20)
	other := newService(t, nil)
	var rows []requirement
	for _, mood := range []struct {
		id      string
		service http.HandlerFunc
		// message is that without allow_on_error.
		message string
		change  func(*authz.Config)
	}{
		{"Z-15 204", says(204, ""), "", nil},
		{"Z-15 403 with a message", says(403, `{"message": "Your project has used its budget."}`), "Your project has used its budget.", nil},
		{"Z-15 403 without a body", says(403, ""), silent, nil},
		{"Z-15 403 without JSON", says(403, "oops"), silent, nil},
		{"Z-15 403 with an array", says(403, `["oops"]`), silent, nil},
		{"403 of 10 MB", says(403, `{"message": "`+large+`"}`), silent, nil},
		{"403 that says to be longer than it is", writes("HTTP/1.1 403 X\r\nContent-Length: 99\r\n\r\noops"), silent, nil},
		{"Z-17 200", says(200, `{"message": "oops"}`), failure, nil},
		{"Z-17 404", says(404, "oops"), failure, nil},
		{"Z-17 500", says(500, "oops"), failure, nil},
		{"200 of 10 MB", says(200, large), failure, nil},
		{"Z-17 slow", hangs, failure, impatient},
		{"resetting", resets, failure, nil},
		{"not HTTP", writes("oops"), failure, nil},
		{"a header of 10 MB", writes("HTTP/1.1 204 X\r\nX: " + large + "\r\n\r\n"), failure, nil},
		{"an answer of two lengths", writes("HTTP/1.1 200 X\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"), failure, nil},
		{"Z-19 a redirect", http.RedirectHandler(other.URL+"/v1/check-create", http.StatusTemporaryRedirect).ServeHTTP, failure, nil},
	} {
		row := requirement{id: mood.id, chain: "usage", asks: create(t, nil), message: mood.message, asked: 1, service: mood.service, change: mood.change}
		rows = append(rows, row)
		if row.id, row.chain = "Z-18 Z-45 allowed: "+mood.id, "usage allow"; mood.message == failure {
			row.message = ""
		}
		rows = append(rows, row)
	}
	t.Run("moods", func(t *testing.T) { run(t, rows) })
	if n := len(other.calls()); n != 0 {
		t.Errorf("the redirect is followed %d times", n)
	}
	silentService, down := newService(t, nil), newService(t, nil)
	down.Close()
	for id, url := range map[string]string{
		"Z-17 down": down.URL, "Z-17 of no such name": "http://usage.invalid",
		"Z-17 without TLS": "https://" + strings.TrimPrefix(silentService.URL, "http://"),
		"this machine":     strings.Replace(silentService.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1),
	} {
		row := requirement{chain: "usage", asks: create(t, nil), message: failure}
		if id == "this machine" {
			row.change = func(c *authz.Config) { c.External.AllowAddresses = nil }
		}
		t.Run(id, func(t *testing.T) { row.check(t, silentService, url) })
		row.chain, row.message = "usage allow", ""
		t.Run("Z-18 allowed: "+id, func(t *testing.T) { row.check(t, silentService, url) })
	}
	unset := newService(t, nil)
	for _, chain := range []string{"usage", "length; usage", "length; usage allow"} {
		t.Run("Z-2 Z-16 Z-44 no endpoint: "+chain, func(t *testing.T) {
			requirement{chain: chain, asks: create(t, lasts(87600*time.Hour))}.check(t, unset, "")
		})
	}
}

// TestTheServiceHearsWhatBlazarSaid is Z-14 and Z-36: the examples of the specification
// and the bodies of Blazar's code go on to a service behind, at each base URL, with the
// server's token in place of Blazar's.
func TestTheServiceHearsWhatBlazarSaid(t *testing.T) {
	for _, base := range []string{"", "/", "/usage", "/usage/"} {
		service := newService(t, nil)
		live := &adminpb.Policy{Name: leases, Etag: "live", Rules: filters(t, "usage", service.URL+base)}
		s, _, _ := sidecar(t, policies{leases: {Policy: live}}, onThisMachine)
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

// TestTheLiveAnswerIsReused is Z-37: an experiment around the same service asks it
// nothing, one around another service neither unless the server allows it, and an end is
// told once.
func TestTheLiveAnswerIsReused(t *testing.T) {
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
			s, previews, _ := sidecar(t, feed, onThisMachine, func(c *authz.Config) { c.External.ShadowCalls = allowed })
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

// TestAServiceThatHangsCostsNoEnd fills the port with checks that wait for a service, and
// tells it of an end.
func TestAServiceThatHangsCostsNoEnd(t *testing.T) {
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
	s, _, _ := sidecar(t, policies{leases: {Policy: live}}, onThisMachine)
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
		<-arrived
	}
	if response, err := client.post("check-create", fixture(t, "blazar-check-create")); err != nil || response.StatusCode != 429 {
		t.Errorf("a check without room gets %q, %v", response.Status, err)
	}
	response, err := client.post("on-end", fixture(t, "blazar-on-end"))
	if err != nil || response.StatusCode != 204 {
		t.Errorf("an end gets %q, %v", response.Status, err)
	}
	if calls := service.calls(); calls[len(calls)-1].path != "/v1/on-end" {
		t.Errorf("the service was told %s last", calls[len(calls)-1].path)
	}
	close(release)
	for range room {
		if got := <-results; got != fmt.Sprint("", error(nil)) {
			t.Errorf("a check is denied with %s", got)
		}
	}
}

// TestChangesOfTheChainAreRehearsed has an experiment for each thing that an operator
// changes of a chain: order, limit, exemption, delegation. Blazar is answered by the live
// one.
func TestChangesOfTheChainAreRehearsed(t *testing.T) {
	service := newService(t, says(500, ""))
	chain := func(text string, exempted ...string) *adminpb.Policy {
		return &adminpb.Policy{
			Name: leases, Etag: "live", Rules: filters(t, text, service.URL), ExemptedProjects: exempted,
			Modules: map[string]string{"m.rego": someRules},
		}
	}
	live := chain("usage allow; length 12h; rego one")
	candidates := map[string]struct {
		policy *adminpb.Policy
		want   string
	}{
		"same":       {chain("usage allow; length 12h; rego one"), "UNCHANGED"},
		"order":      {chain("usage allow; rego one; length 12h"), "RESPONSE_CHANGED"},
		"limit":      {chain("usage allow; length 48h"), "NEWLY_ALLOWED"},
		"exemption":  {chain("usage allow; length 12h; rego one", project), "NEWLY_ALLOWED"},
		"delegation": {chain("usage; length 12h"), "FAILED"},
		"deletion":   {&adminpb.Policy{Name: leases}, "NEWLY_ALLOWED"},
	}
	state := authz.PolicyState{Policy: live}
	want := make(map[string]string)
	for id, c := range candidates {
		want[id] = c.want
		state.Experiments = append(state.Experiments, &adminpb.PolicyExperiment{Name: leases + "/experiments/" + id, Etag: id, Policy: c.policy})
	}
	s, previews, _ := sidecar(t, policies{leases: state}, onThisMachine)
	p := serve(t, s, nil)
	ask := update(t, time.Hour, 24*time.Hour)
	message, err := blazar{p.url + "/v1/", token}.ask(ask.name, ask.body)
	if err != nil || message != "The reservation exceeds the maximum length of 12 hours." {
		t.Errorf("got %q, %v", message, err)
	}
	got := make(map[string]string)
	for range candidates {
		a := previews.await(t).attributes
		got[a["understudy.experiment.etag"]] = a["understudy.preview.difference"]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(service.calls()); n != 1 {
		t.Errorf("the service is called %d times, want 1", n)
	}
}

package reservation_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/sidecar"
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

// blazarCall is a call of Blazar's.
type blazarCall struct{ name, body string }

// create returns Blazar's call for a lease with other values.
func create(t testing.TB, lease map[string]any) blazarCall {
	return blazarCall{"check-create", changed(t, "blazar-check-create", "lease", lease)}
}

// update returns Blazar's call that makes a lease of so many hours one of others.
func update(t testing.TB, from, to time.Duration) blazarCall {
	body := changed(t, "blazar-check-update", "lease", lasts(to))
	return blazarCall{"check-update", edited(t, body, "current_lease", lasts(from))}
}

func end(t testing.TB) blazarCall { return blazarCall{"on-end", fixture(t, "blazar-on-end")} }

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
	asks  blazarCall
	// message is what Blazar's user reads; empty if the call passes.
	message string
	// asked is how often the external service is called; -1 if it may miss the call.
	asked int
	// service answers; nil passes everything.
	service  http.HandlerFunc
	exempted []string
	change   func(*sidecar.Config)
}

// check asks over HTTP, as Blazar does.
func (r requirement) check(t *testing.T, service *service, url string) {
	t.Helper()
	live := &adminpb.Policy{
		Name: leases, Etag: "live", Rules: filters(t, r.chain, url), ExemptedProjects: r.exempted,
		Modules: map[string]string{"m.rego": someRules},
	}
	changes := []func(*sidecar.Config){onThisMachine}
	if r.change != nil {
		changes = append(changes, r.change)
	}
	s, _, _ := deciding(t, policies{leases: {Policy: live}}, changes...)
	p := serve(t, s, nil)
	message, err := blazar{base: p.url + "/v1/", token: token}.ask(r.asks.name, r.asks.body)
	if err != nil || message != r.message {
		t.Errorf("got  %q, %v\nwant %q", message, err, r.message)
	}
	if n := len(service.calls()); n != r.asked && r.asked >= 0 {
		t.Errorf("the service is called %d times, want %d", n, r.asked)
	}
}

// run checks each row next to the others, with a service of its own.
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
	const exceeded, unknown = "The reservation exceeds the maximum length of 24 hours.", "The length of the reservation is unknown: "
	of := func(d time.Duration) blazarCall { return create(t, lasts(d)) }
	from := func(lease map[string]any) blazarCall { return create(t, lease) }
	named := func(domain string) blazarCall {
		values := map[string]any{"project_name": "lab"}
		if domain != "" {
			values["project_domain_name"] = domain
		}
		return blazarCall{"check-create", changed(t, "blazar-check-create", "context", values)}
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
			asks: blazarCall{"check-update", changed(t, "blazar-check-update", "context", map[string]any{"user_id": "v"})}},
		{id: "Z-6 a denial", chain: "rego one; length 1m", asks: end(t)},
		{id: "Z-6 every filter is notified", chain: "rego one; rego broken; rego nothing; length 1m; usage", asks: end(t), asked: 1, service: says(500, "")},
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
			message: unknown + "The lease's end_date is no date: it has to be like 2026-11-21 15:04, 2026-11-21T15:04:05 or 2026-11-21T15:04:05Z."},
		{id: "Z-13 none at all", chain: "length 24h", asks: from(map[string]any{"end_date": nil}),
			message: unknown + "it needs a start_date and an end_date."},
	})
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
	s, previews, _ := deciding(t, policies{leases: state}, onThisMachine)
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

package sidecar_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/extservice"
	"understudy/authz/sidecar"
)

const (
	creation = authz.OperationCheckCreate
	change   = authz.OperationCheckUpdate
	ending   = authz.OperationOnEnd
)

// someRules is a module with rules that pass, deny and look at the reservation.
const someRules = `
yes := true
one := {"allowed": false, "reason": "one"}
two := {"allowed": false, "reason": "two"}
broken := {"allowed": "?"}
allocation := {"allowed": input.lease.reservations[0].allocations[0].id == "1", "reason": "no allocation"}
updater := {"allowed": input.context.user_id == "u", "reason": "not his"}
current := {"allowed": input.current_lease.end_date < input.lease.end_date, "reason": "not longer"}
`

// TestRequirementsOfTheChain has a row for each requirement on the chain and on the
// limit of the length.
func TestRequirementsOfTheChain(t *testing.T) {
	const hour, day, year = time.Hour, 24 * time.Hour, 365 * 24 * time.Hour
	chain := func(paths ...string) []*adminpb.PolicyRule {
		var out []*adminpb.PolicyRule
		for _, p := range paths {
			out = append(out, regoRule("m/"+p))
		}
		return out
	}
	limit := func(d time.Duration) []*adminpb.PolicyRule { return []*adminpb.PolicyRule{lengthRule(d)} }
	for _, c := range []struct {
		id    string
		rules []*adminpb.PolicyRule
		ask   *authz.Request
		// denial is the message; empty means that the request is allowed.
		denial string
	}{
		{"Z-1 the first denial", chain("yes", "one", "two"), lease(creation, hour), "one"},
		{"Z-1 swapped", chain("two", "one"), lease(creation, hour), "two"},
		{"Z-1 none denies", chain("yes", "allocation"), lease(creation, hour), ""},
		{"Z-2 Z-40 the default chain, not configured", []*adminpb.PolicyRule{lengthRule(0), serviceRule("", false)}, lease(creation, 10*year), ""},
		{"Z-3 update", chain("one"), lease(change, hour), "one"},
		{"Z-3 Z-6 end", chain("one"), lease(ending, hour), ""},
		{"Z-4 allocations", chain("allocation"), lease(creation, hour), ""},
		{"Z-5 the updating user", chain("updater"), lease(change, hour), ""},
		{"Z-5 both leases", chain("current"), lease(change, 2*hour), ""},
		{"Z-5 the limit is for the new lease", limit(90 * time.Minute), lease(change, 2*hour), "The reservation exceeds the maximum length of 90 minutes."},
		{"Z-6 failures", chain("broken", "one"), lease(ending, hour), ""},
		{"Z-6 too long", limit(hour), lease(ending, day), ""},
		{"Z-7 create", chain("two"), lease(creation, hour), "two"},
		{"Z-7 update", chain("two"), lease(change, hour), "two"},
		{"Z-9 Z-41 filters of all kinds, in order", []*adminpb.PolicyRule{lengthRule(hour), regoRule("m/one")}, lease(creation, day), "The reservation exceeds the maximum length of 1 hour."},
		{"Z-41 the other order", []*adminpb.PolicyRule{regoRule("m/one"), lengthRule(hour)}, lease(creation, day), "one"},
		{"Z-10 equal", limit(day), lease(creation, day), ""},
		{"Z-10 longer", limit(day), lease(creation, day+time.Minute), "The reservation exceeds the maximum length of 24 hours."},
		{"Z-11 Z-42 no limit", limit(0), lease(creation, 10*year), ""},
		{"Z-12 an update to more", limit(day), lease(change, 25*hour), "The reservation exceeds the maximum length of 24 hours."},
		{"Z-12 an update to less", limit(day), lease(change, hour), ""},
		{"Z-13 unreadable", limit(day), with(lease(creation, hour), func(r *authz.Reservation) { r.Invalid = "start_date is no\ndate" }), "The length of the reservation is unknown: start_date is no\uFFFDdate"},
		{"Z-13 no dates", limit(day), with(lease(creation, hour), func(r *authz.Reservation) { r.End = time.Time{} }), "The length of the reservation is unknown: it needs a start_date and an end_date."},
		{"Z-13 backwards", limit(day), with(lease(creation, hour), func(r *authz.Reservation) { r.End = r.Start.Add(-1) }), "The reservation ends before it starts."},
		{"Z-16 Z-44 no endpoint", []*adminpb.PolicyRule{serviceRule("", false)}, lease(creation, hour), ""},
		{"Z-10 a limit in seconds", limit(86401 * time.Second), lease(creation, 2*day), "The reservation exceeds the maximum length of 86401 seconds."},
		{"Envoy's requests have no length", limit(time.Second), envoys("GET"), ""},
		{"a front that forgets the reservation", limit(day), with(lease(creation, hour), nil), "The length of the reservation is unknown: there is no reservation."},
	} {
		t.Run(c.id, func(t *testing.T) {
			t.Parallel()
			s, _ := deciding(t, rules(someRules, c.rules...), nil)
			d := s.Check(t.Context(), c.ask)
			if d.Failure != "" || (d.Effect == authz.Allow) != (c.denial == "") || d.Effect == authz.Deny && d.Reason != c.denial {
				t.Errorf("got %+v; want the denial %q", d, c.denial)
			}
		})
	}
}

// with changes the reservation of a request; nil takes it out.
func with(r *authz.Request, change func(*authz.Reservation)) *authz.Request {
	if change == nil {
		r.Reservation = nil
		return r
	}
	change(r.Reservation)
	return r
}

// TestExemptedProjects is Z-8 and Z-43.
func TestExemptedProjects(t *testing.T) {
	named := func(r *authz.Request, name, domain string) *authz.Request {
		r.Reservation.Context = maps.Clone(r.Reservation.Context)
		r.Reservation.Context["project_name"] = name
		if domain != "" {
			r.Reservation.Context["project_domain_name"] = domain
		}
		return r
	}
	route := func(p authz.Project) *authz.Request {
		r := envoys("GET")
		r.Project = p
		return r
	}
	for _, c := range []struct {
		name     string
		exempted []string
		ask      *authz.Request
		want     authz.Effect
	}{
		{"none", nil, lease(creation, time.Hour), authz.Deny},
		{"by ID", []string{"q", "p"}, lease(creation, time.Hour), authz.Allow},
		{"by ID, at an update", []string{"p"}, lease(change, time.Hour), authz.Allow},
		{"by the ID of the context", []string{"p"}, with(lease(creation, time.Hour), func(r *authz.Reservation) { r.Project = "" }), authz.Allow},
		{"another", []string{"P"}, lease(creation, time.Hour), authz.Deny},
		{"by name and domain", []string{"lab@Default"}, named(lease(creation, time.Hour), "lab", "Default"), authz.Allow},
		{"by a name with @", []string{"me@lab.example@Default"}, named(lease(creation, time.Hour), "me@lab.example", "Default"), authz.Allow},
		{"by a domain with @", []string{"me@lab.example@Default"}, named(lease(creation, time.Hour), "me", "lab.example@Default"), authz.Deny},
		{"another domain", []string{"lab@Default"}, named(lease(creation, time.Hour), "lab", "Other"), authz.Deny},
		{"no domain", []string{"lab@Default"}, named(lease(creation, time.Hour), "lab", ""), authz.Deny},
		{"a name is no ID", []string{"lab"}, named(lease(creation, time.Hour), "lab", "Default"), authz.Deny},
		{"an ID is no name", []string{"p@Default"}, named(lease(creation, time.Hour), "lab", "Default"), authz.Deny},
		{"nothing is no project", []string{"", "@", "lab@", "@Default"}, with(lease(creation, time.Hour), func(r *authz.Reservation) { r.Project, r.Context = "", nil }), authz.Deny},
		{"Envoy's, whose route names none", []string{"p"}, envoys("GET"), authz.Deny},
		{"Envoy's, by ID", []string{"p"}, route(authz.Project{ID: "p"}), authz.Allow},
		{"Envoy's, by name", []string{"lab@Default"}, route(authz.Project{Name: "lab", Domain: "Default"}), authz.Allow},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			service := newService(t, says(403, `{"message": "no"}`))
			live := rules("", serviceRule(service.URL, false))
			live.ExemptedProjects = c.exempted
			s, _ := deciding(t, live, nil)
			d := s.Check(t.Context(), c.ask)
			if d.Effect != c.want || d.Failure != "" {
				t.Errorf("got %+v; want %v", d, c.want)
			}
			if n := len(service.calls()); (n == 0) != (c.want == authz.Allow) {
				t.Errorf("the service was called %d times", n)
			}
		})
	}
}

// TestAnExemptionIsRehearsed: a change of it is a change of the policy.
func TestAnExemptionIsRehearsed(t *testing.T) {
	candidate := rules("no := false", regoRule("m/no"))
	candidate.Etag, candidate.ExemptedProjects = "e", []string{"p"}
	s, rec := deciding(t, rules("no := false", regoRule("m/no")), nil, candidate)
	s.Check(t.Context(), lease(creation, time.Hour))
	if got := rec.await(t, 1)[0].attributes["understudy.preview.difference"]; got != "NEWLY_ALLOWED" {
		t.Errorf("the difference is %s", got)
	}
}

// TestTheServiceIsAskedAsBlazarDoes is Z-14.
func TestTheServiceIsAskedAsBlazarDoes(t *testing.T) {
	t.Parallel()
	service := newService(t, nil)
	for _, base := range []string{service.URL, service.URL + "/", service.URL + "/usage"} {
		for operation, name := range map[authz.Operation]string{creation: "check-create", change: "check-update", ending: "on-end"} {
			s, _ := deciding(t, rules("", serviceRule(base, false)), func(c *sidecar.Config) {
				c.External.Tokens = map[string]extservice.TokenSource{
					"http://" + service.authority(): func() (string, error) { return "secret", nil },
				}
			})
			r := lease(operation, time.Hour)
			if d := s.Check(t.Context(), r); d.Effect != authz.Allow {
				t.Fatalf("%s: got %+v; want it allowed", operation, d)
			}
			calls := service.calls()
			got := calls[len(calls)-1]
			want := strings.TrimSuffix(strings.TrimPrefix(base, service.URL), "/") + "/v1/" + name
			if got.method != "POST" || got.path != want {
				t.Errorf("%s: %s %s is called, want %s", operation, got.method, got.path, want)
			}
			for header, value := range map[string]string{"Content-Type": "application/json", "X-Auth-Token": "secret"} {
				if got.header.Get(header) != value {
					t.Errorf("%s: %s is %q", operation, header, got.header.Get(header))
				}
			}
			keys := []string{"context", "lease"}
			if operation == change {
				keys = []string{"context", "current_lease", "lease"}
			}
			if diff := cmp.Diff(keys, slices.Sorted(maps.Keys(got.body))); diff != "" {
				t.Errorf("%s: %s", operation, diff)
			}
			allocation := got.body["lease"].(map[string]any)["reservations"].([]any)[0].(map[string]any)["allocations"]
			if diff := cmp.Diff([]any{map[string]any{"id": "1"}}, allocation); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(r.Reservation.Context, got.body["context"]); diff != "" {
				t.Error(diff)
			}
		}
	}
}

// TestTheServiceIsAskedAboutEnvoysRequests pins what it is sent.
func TestTheServiceIsAskedAboutEnvoysRequests(t *testing.T) {
	t.Parallel()
	service := newService(t, says(403, `{"message": "Come back later."}`))
	s, _ := deciding(t, rules("", serviceRule(service.URL, false)), nil)
	d := s.Check(t.Context(), envoys("GET"))
	if d.Effect != authz.Deny || d.Body != "Come back later." || d.Status() != 403 || d.Rule != "service" {
		t.Errorf("got %+v; want the message of the service as the body", d)
	}
	got := service.calls()[0]
	want := map[string]any{
		"context": map[string]any{
			"decision_id": "id", "method": "GET", "host": "shop.example", "path": "/cart", "principal": "spiffe://x/web",
		},
		"request": map[string]any{"request": map[string]any{"http": map[string]any{"method": "GET", "size": 9007199254740993.0}}},
	}
	if diff := cmp.Diff(want, got.body); diff != "" || got.path != "/v1/check" {
		t.Errorf("%s is called: %s", got.path, diff)
	}
}

// TestEveryFilterIsToldOfAnEnd is Z-6: denials, failures and services that are gone
// hold up nobody.
func TestEveryFilterIsToldOfAnEnd(t *testing.T) {
	t.Parallel()
	denying, broken, last := newService(t, says(403, `{"message": "no"}`)), newService(t, answers(500)), newService(t, nil)
	m := newMeter()
	s, _ := deciding(t, rules(someRules,
		serviceRuleNamed("a", denying.URL), serviceRuleNamed("b", broken.URL), regoRule("m/one"), regoRule("m/broken"),
		lengthRule(time.Minute), serviceRuleNamed("c", last.URL),
	), func(c *sidecar.Config) { c.Meters = m })
	if d := s.Check(t.Context(), lease(ending, time.Hour)); d.Effect != authz.Allow || d.Failure != "" {
		t.Errorf("got %+v; want it allowed", d)
	}
	for i, service := range []*service{denying, broken, last} {
		if n := len(service.calls()); n != 1 {
			t.Errorf("service %d is called %d times, want 1", i, n)
		}
	}
	for failure, want := range map[authz.Failure]int64{authz.FailureExternal: 1, authz.FailureType: 1} {
		if got := m.count(t, "understudy.notification.failures", label("failure", string(failure))); got != want {
			t.Errorf("%d failures %s are counted, want %d", got, failure, want)
		}
	}
}

func serviceRuleNamed(id, endpoint string) *adminpb.PolicyRule {
	r := serviceRule(endpoint, false)
	r.RuleId = id
	return r
}

// TestMistakesInFiltersAreNamed has what a policy may not say of the built-in filters.
func TestMistakesInFiltersAreNamed(t *testing.T) {
	const endpoint, limit = "rules[0].external_service.endpoint_url", "rules[0].maximum_reservation_length.reservation_max_length"
	for _, c := range []struct {
		name  string
		rule  *adminpb.PolicyRule
		field string
		says  string
	}{
		{"a negative limit", lengthRule(-time.Second), limit, "negative"},
		{"no scheme", serviceRule("usage.example.com", false), endpoint, "https://"},
		{"another scheme", serviceRule("ftp://usage.example.com", false), endpoint, "https://"},
		{"a file", serviceRule("file:///etc/passwd", false), endpoint, "https://"},
		{"no URL", serviceRule("http://[", false), endpoint, "no URL"},
		{"a line break", serviceRule("http://a\r\nb", false), endpoint, "no URL"},
		{"no host", serviceRule("https:///x", false), endpoint, "host"},
		{"opaque", serviceRule("https:usage", false), endpoint, "host"},
		{"a bad port", serviceRule("https://a:70000", false), endpoint, "65535"},
		{"port zero", serviceRule("https://a:0", false), endpoint, "65535"},
		{"no port", serviceRule("https://a:", false), endpoint, "65535"},
		{"not ASCII", serviceRule("https://bücher.example", false), endpoint, "ASCII"},
		{"a password", serviceRule("https://me:secret@usage.example.com", false), endpoint, "password"},
		{"a user", serviceRule("https://me@usage.example.com", false), endpoint, "user"},
		{"a query", serviceRule("https://usage.example.com?a=b", false), endpoint, "query"},
		{"a fragment", serviceRule("https://usage.example.com#a", false), endpoint, "fragment"},
		{"an empty fragment", serviceRule("https://usage.example.com#", false), endpoint, "fragment"},
		{"too long", serviceRule("https://usage.example.com/"+strings.Repeat("a", 2048), false), endpoint, "2048"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := authz.Compile(t.Context(), rules("", c.rule))
			var refused *authz.CompileError
			if !errors.As(err, &refused) {
				t.Fatalf("got %v; want a CompileError", err)
			}
			v := refused.Violations[0]
			if v.Field != c.field || !strings.Contains(v.Description, c.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %+v; want the field %s and a text with %q", v, c.field, c.says)
			}
		})
	}
	for _, right := range []string{"http://a", "https://usage.example.com:8443/base/", "http://10.1.2.3", "http://[fd00::1]:80"} {
		if _, err := authz.Compile(t.Context(), rules("", serviceRule(right, false))); err != nil {
			t.Errorf("%s: %v", right, err)
		}
	}
}

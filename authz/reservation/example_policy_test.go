package reservation_test

import (
	"os"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
)

// examplePolicy is the policy of deploy/examples/reservations with a limit of its own.
func examplePolicy(t *testing.T, hosts, hours float64) policies {
	t.Helper()
	module, err := os.ReadFile("../../deploy/examples/reservations/reservations.rego")
	if err != nil {
		t.Fatal(err)
	}
	data, err := structpb.NewStruct(map[string]any{"limits": map[string]any{"default": map[string]any{"hosts": hosts, "hours": hours}}})
	if err != nil {
		t.Fatal(err)
	}
	return policies{leases: {Policy: &adminpb.Policy{
		Name: leases, Etag: "live", Data: data, Modules: map[string]string{"reservations.rego": string(module)},
		Rules: []*adminpb.PolicyRule{{RuleId: "limits", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{Path: "reservations/allow"}}}},
	}}}
}

// TestTheExampleCountsHostsOfBlazarsBodies sends bodies that Blazar's manager made with
// twelve hosts in its database. In them the allocations are not the hosts that a
// reservation gets: they are listed by resource type, and those of an update are the
// candidates of the reservations as they were.
func TestTheExampleCountsHostsOfBlazarsBodies(t *testing.T) {
	limited := func(hosts, has string) string {
		return "Your project is limited to " + hosts + " physical hosts in a lease; this one has " + has + "."
	}
	for _, c := range []struct {
		call, body   string
		hosts, hours float64
		want         string
	}{
		// 1 and 3 hosts for 10 hours; both reservations show the same three candidates.
		{"check-create", "blazar-check-create-two-reservations", 4, 40, ""},
		{"check-create", "blazar-check-create-two-reservations", 3, 40, limited("3", "4")},
		{"check-create", "blazar-check-create-two-reservations", 4, 39, "Your project is limited to 39 host hours in a lease; this one has 40."},
		// From 4 hosts to 2; the reservation shows four candidates.
		{"check-update", "blazar-check-update-fewer-hosts", 2, 20, ""},
		{"check-update", "blazar-check-update-fewer-hosts", 1, 20, limited("1", "2")},
		// 2 hosts from 10 to 19 hours; the lease comes with its reservations as they are.
		{"check-update", "blazar-check-update-later-end", 2, 40, ""},
		{"check-update", "blazar-check-update-later-end", 1, 40, limited("1", "2")},
		// From 1 and 3 hosts to 3 and 1.
		{"check-update", "blazar-check-update-both", 4, 40, ""},
		{"check-update", "blazar-check-update-both", 3, 40, limited("3", "4")},
	} {
		s, _, _ := deciding(t, examplePolicy(t, c.hosts, c.hours))
		p := serve(t, s, nil)
		message, err := blazar{p.url + "/v1/", token}.ask(c.call, fixture(t, c.body))
		if err != nil || message != c.want {
			t.Errorf("%s with limits of %v hosts and %v hours: got %q, %v; want %q", c.body, c.hosts, c.hours, message, err, c.want)
		}
	}
}

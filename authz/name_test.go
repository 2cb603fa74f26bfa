package authz_test

import (
	"testing"

	"understudy/authz"
)

// TestNamesAreTakenApart by each kind of resource that there is.
func TestNamesAreTakenApart(t *testing.T) {
	for _, c := range []struct {
		name                  authz.ResourceName
		id, project           string
		location, policy, new string
	}{
		{"projects/p", "p", "p", "", "", "projects/x"},
		{"projects/p/locations/l", "l", "p", "projects/p/locations/l", "", "projects/p/locations/x"},
		{"projects/p/locations/l/policies/web", "web", "p", "projects/p/locations/l", "projects/p/locations/l/policies/web", "projects/p/locations/l/policies/x"},
		{
			"projects/p/locations/l/policies/web/experiments/e", "e", "p", "projects/p/locations/l", "projects/p/locations/l/policies/web",
			"projects/p/locations/l/policies/web/experiments/x",
		},
		{"", "", "", "", "", "x"},
		{"web", "web", "", "", "", "x"},
	} {
		if got := c.name.ID(); got != c.id {
			t.Errorf("%q: the ID is %q, want %q", c.name, got, c.id)
		}
		if got := c.name.Project(); got != c.project {
			t.Errorf("%q: the project is %q, want %q", c.name, got, c.project)
		}
		if got := string(c.name.Location()); got != c.location {
			t.Errorf("%q: the location is %q, want %q", c.name, got, c.location)
		}
		if got := string(c.name.Policy()); got != c.policy {
			t.Errorf("%q: the policy is %q, want %q", c.name, got, c.policy)
		}
		if got := string(c.name.Sibling("x")); got != c.new {
			t.Errorf("%q: the sibling is %q, want %q", c.name, got, c.new)
		}
	}
}

// TestNamesThatPeopleSay: policies and experiments have short names, all else is named whole.
func TestNamesThatPeopleSay(t *testing.T) {
	const web = authz.PolicyName("projects/p/locations/l/policies/web")
	for _, c := range []struct{ name, experiment, short string }{
		{string(web), "", "web"},
		{web.Experiment("strict"), "strict", "web/strict"},
		{web.Experiment("strict") + "/report", "strict", "web/strict"},
		{web.Revision("abc"), "", "web"},
		{"projects/p/locations/l", "", "projects/p/locations/l"},
		{"web/strict", "", "web/strict"},
		{"", "", ""},
	} {
		if got := authz.ResourceName(c.name).Experiment(); got != c.experiment {
			t.Errorf("%q: the experiment is %q, want %q", c.name, got, c.experiment)
		}
		if got := authz.ResourceName(c.name).Short(); got != c.short {
			t.Errorf("%q: the short name is %q, want %q", c.name, got, c.short)
		}
	}
}

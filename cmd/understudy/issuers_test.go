package main

import (
	"strings"
	"testing"

	"understudy/admin/authentication/oidc/oidctest"
)

// TestPeopleAndJobs: two issuers of one server, each with its own audience and claim of groups, and
// token files next to them, of which the first is away when the server starts.
func TestPeopleAndJobs(t *testing.T) {
	t.Parallel()
	people, cluster := oidctest.Absent(t), oidctest.New(t)
	token, file := newToken(t, "ci")
	r := startServer(t, func(c *config) {
		c.adminTokenFiles = []string{file}
		c.oidcIssuers = []string{people.URL + ",audience=understudy,groups-claim=roles", cluster.URL + ",audience=jobs,groups-claim="}
		c.owners = []string{"group:" + people.URL + "#ops", "token:ci"}
	})
	person := people.Token(map[string]any{"roles": []string{"ops"}, "groups": []string{"others"}})
	job := cluster.Token(map[string]any{"sub": "system:serviceaccount:ci:deploy", "aud": "jobs", "roles": []string{"ops"}, "groups": []string{"ops"}})
	expect := func(when, token, path string, code int, text string) {
		t.Helper()
		if got, body, err := r.askAs(t, nil, "GET", path, token); err != nil || got != code || !strings.Contains(body, text) {
			t.Errorf("%s: GET %s: %d, %v, %s, want %d with %s", when, path, got, err, body, code, text)
		}
	}
	expect("an issuer that is away", person, "/whoami", 503, people.URL)
	expect("beside it", job, "/whoami", 200, `"principal":"oidc:`+cluster.URL+`#system:serviceaccount:ci:deploy","groups":[],`)
	expect("beside it", token, policies, 200, "")
	expect("a role of people's group", job, policies, 403, "PERMISSION_DENIED")
	people.Start()
	r.awaitWhoami(t, person, 200) // the server asks again every two seconds
	expect("when it is there", person, policies, 200, "")
	expect("when it is there", person, "/whoami", 200, `"groups":["group:`+people.URL+`#ops"]`)
	expect("the audience of the other", cluster.Token(nil), "/whoami", 401, "it has to be for jobs.")
	expect("a stranger", oidctest.New(t).Token(nil), "/whoami", 401, "a token of a token file or of the issuer "+people.URL+" or of the issuer "+cluster.URL)
	_, metrics := r.call(t, "health", "GET", "/metrics", "")
	if !strings.Contains(metrics, `understudy_authentication_refresh_failures_total{issuer="`+people.URL+`"`) {
		t.Error("the metrics do not say which issuer is away")
	}
}

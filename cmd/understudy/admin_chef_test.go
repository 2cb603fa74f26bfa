package main

import (
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/admin/policyfile"
	"understudy/admin/policyfile/signature/signaturetest"
)

// signer is a user of Chef's API.
type signer struct {
	*testing.T
	server *running
	name   string
	key    *rsa.PrivateKey
}

// call makes a signed call and returns status and body.
func (s signer) call(method, path, body string) (int, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, "http://"+s.server.bound["admin"]+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	signaturetest.Request{Version: "1.3", User: s.name, Method: method, Path: r.URL.Path, Body: body, At: time.Now(), APIVersion: "1"}.Sign(r.Header, s.key)
	return answerOf(s, r)
}

// must is call of what has this status.
func (s signer) must(status int, method, path, body string) string {
	s.Helper()
	got, content := s.call(method, path, body)
	if got != status {
		s.Errorf("%s: %s %s: got %d %s, want %d", s.name, method, path, got, content, status)
	}
	return content
}

// Signatures are counted as all credentials are, good and bad ones.
func TestSignaturesAreCounted(t *testing.T) {
	t.Parallel()
	alice := signaturetest.Key()
	server := startServer(t, func(c *config) {
		c.chefKeys = []string{"alice=" + signaturetest.PublicFile(t, alice)}
		c.owners = []string{"chef:alice"}
	})
	signer{t, server, "alice", alice}.must(200, "GET", "/policies", "")
	signer{t, server, "bob", alice}.must(401, "GET", "/policies", "")
	signer{t, server, "alice", signaturetest.NewKey(2048)}.must(401, "GET", "/policies", "")
	signer{t, server, "no name", alice}.must(401, "GET", "/policies", "")
	for outcome, header := range map[string]string{"expired": "2009-01-01T12:00:00Z", "malformed": "today"} {
		code := server.signedAt(t, alice, header)
		if code != 401 {
			t.Errorf("%s: got %d, want 401", outcome, code)
		}
	}
	_, metrics := server.call(t, "health", "GET", "/metrics", "")
	for outcome, want := range map[string]string{"ok": "1", "signature": "2", "expired": "1", "malformed": "2"} {
		line := regexp.MustCompile(`understudy_authentications_total\{method="chef",[^}]*outcome="` + outcome + `"[^}]*} ` + want + `\n`)
		if !line.MatchString(metrics) {
			t.Errorf("the metrics have no %s with the value %s", outcome, want)
		}
	}
}

// signedAt makes a call as alice whose signature says that it was made at a time.
func (r *running) signedAt(t *testing.T, key *rsa.PrivateKey, at string) int {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+r.bound["admin"]+"/policies", nil)
	if err != nil {
		t.Fatal(err)
	}
	signaturetest.Request{Version: "1.3", User: "alice", Method: "GET", Path: "/policies", At: time.Now(), APIVersion: "1"}.Sign(q.Header, key)
	q.Header.Set("X-Ops-Timestamp", at)
	response, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// an access control list is the bindings of the admin API, and what it gives counts.
func TestR76AccessControlLists(t *testing.T) {
	t.Parallel()
	alice, bob := signaturetest.Key(), signaturetest.NewKey(2048)
	server := startServer(t, func(c *config) {
		c.chefKeys = []string{"alice=" + signaturetest.PublicFile(t, alice), "bob=" + signaturetest.PublicFile(t, bob)}
		c.owners = []string{"chef:alice"}
	})
	a, b := signer{t, server, "alice", alice}, signer{t, server, "bob", bob}
	lock := sealed(t, `"name":"web","run_list":[],"cookbook_locks":{}}`)
	const active, ofGroup, ofName = "/policy_groups/l1/policies/web", "/policy_groups/l1/_acl", "/policies/web/_acl"

	b.must(403, "PUT", active, lock)
	a.must(201, "PUT", active, lock)
	if got := b.must(403, "GET", active, ""); !strings.HasPrefix(got, `{"error":["missing read permission",`) {
		t.Errorf("got %s", got)
	}
	a.must(200, "PUT", ofGroup+"/read", `{"read":{"actors":["bob","pivotal"],"groups":[]}}`)
	b.must(403, "GET", active, "")
	a.must(200, "PUT", ofName+"/read", `{"read":{"actors":[],"users":["pivotal"],"clients":["bob"],"groups":["https://idp#ops"]}}`)
	b.must(200, "GET", active, "")
	b.must(403, "PUT", active, lock)
	b.must(403, "PUT", ofName+"/grant", `{"grant":{"actors":["bob"],"groups":[]}}`)
	for _, list := range []string{ofGroup, ofName} {
		a.must(200, "PUT", list+"/update", `{"update":{"actors":["bob"],"groups":[]}}`)
	}
	b.must(200, "PUT", active, lock)
	b.must(403, "GET", ofName, "")

	var shown map[string]struct{ Actors, Groups []string }
	if err := json.Unmarshal([]byte(a.must(200, "GET", ofName+"?detail=granular", "")), &shown); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"bob"}, {"bob"}, {}, {"https://idp#ops"}}, [][]string{shown["read"].Actors, shown["delete"].Actors, shown["grant"].Actors, shown["read"].Groups}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for body, want := range map[string]string{
		`{"read":{"actors":["bob"],"groups":["ops"]}}`:     "it is group:ISSUER#NAME, with the issuer's URL",
		`{"read":{"actors":[],"groups":[]}}`:               "bob has create, update and delete, which are one permission here",
		`{"read":{"actors":["bob","carol"],"groups":[]}}`:  "The actor(s) carol do not exist in this organization",
		`{"read":{"actors":["bob"]}}`:                      "Field 'groups' missing",
		`{"update":{"actors":["bob"],"groups":[]}}`:        "Field 'read' missing",
		`{"read":{"actors":[],"groups":[],"users":["x"]}}`: "Including it also requires",
		`{`: "invalid JSON",
	} {
		if got := a.must(400, "PUT", ofName+"/read", body); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
	a.must(400, "PUT", ofName+"/list", `{"list":{"actors":[],"groups":[]}}`)
	a.must(404, "GET", "/policies/none/_acl", "")
	a.must(200, "PUT", "/containers/policy_groups/_acl/grant", `{"grant":{"actors":["bob"],"groups":[]}}`)
	b.must(200, "GET", "/containers/policies/_acl", "") // what a project has, holds below it

	// The bindings of a name go with it.
	a.must(200, "DELETE", "/policies/web", "")
	a.must(201, "PUT", active, lock)
	if got := a.must(200, "GET", ofName, ""); strings.Contains(got, "bob") {
		t.Errorf("a new policy has the list of the one before: %s", got)
	}
	// Signatures are for the Policyfile API alone.
	if code, body := server.call(t, "admin", "GET", policies, ""); code != 401 {
		t.Errorf("the other API: got %d %s, want 401", code, body)
	}
}

// sealed puts the right revision_id into a lock.
func sealed(t *testing.T, members string) string {
	t.Helper()
	lock, err := policyfile.Parse([]byte(`{"revision_id":"0",` + members))
	if err != nil {
		t.Fatal(err)
	}
	return `{"revision_id":"` + lock.ComputeRevisionID() + `",` + members
}

func TestChefKeys(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{{"alice"}, {"=a.pem"}, {"alice="}, {"alice=a.pem", "alice=b.pem"}} {
		c := chefConfig{chefKeys: keys}
		ok := true
		c.check(func(kept bool, _, _ string) { ok = ok && kept })
		if ok {
			t.Errorf("--chef-key %q was accepted", keys)
		}
	}
	c := chefConfig{chefKeys: []string{"alice=/nowhere/alice.pem"}}
	if _, err := c.openKeyring(nil); err == nil || !strings.HasPrefix(err.Error(), "--chef-key: alice: opening its key") {
		t.Errorf("got %v, want an error that names the flag and the user", err)
	}
}

package main

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"understudy/admin/authentication/oidc/oidctest"
	"understudy/admin/policyfile/signature/signaturetest"
	"understudy/authz/diagnostics/logtest"
	"understudy/cmd/testkit"
	"understudy/cmd/understudy/port/certtest"
)

// look asks for a page, or for its live version, by a session.
func (r *running) look(t *testing.T, session, accept string) *http.Response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+r.bound["admin"]+"/ui/projects/p1/locations/l1", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Cookie", "understudy-session="+session)
	q.Header.Set("Accept", accept)
	response, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// TestRevokedPrincipals: one file shuts out an owner, anyone who is bound as everybody, a member of a
// group, who signs as Chef's clients do, a browser's session and the page that it looks at.
func TestRevokedPrincipals(t *testing.T) {
	issuer, alice := oidctest.New(t), signaturetest.Key()
	token, tokenFile := newToken(t, "root")
	other, otherFile := newToken(t, "other")
	file := filepath.Join(t.TempDir(), "revoked")
	if err := os.WriteFile(file, []byte("# nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &logtest.Buffer{}
	r := startServerWithLog(t, log, func(c *config) {
		c.adminTokenFiles, c.oidcIssuers, c.tlsReload, c.adminRevokedFile = []string{tokenFile, otherFile}, []string{issuer.URL + ",audience=understudy"}, reloadSoon, file
		c.chefKeys = []string{"alice=" + signaturetest.PublicFile(t, alice)}
		c.owners = []string{"token:root", "token:other"}
	})
	revoke := func(members ...string) {
		t.Helper()
		next := filepath.Join(t.TempDir(), "next")
		if err := os.WriteFile(next, []byte(strings.Join(members, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		certtest.Replace(t, certtest.Renamed{From: next, To: file})
	}
	admin := []string{"--admin=" + r.bound["admin"], "--location=projects/p1/locations/l1"}
	t.Setenv("UNDERSTUDY_TOKEN", token)
	if code, out, errs := runCommand(t, "iam", "grant", "--project", "allAuthenticated", "viewer", admin[0], admin[1]); code != 0 {
		t.Fatalf("binding everybody: %s%s", out, errs)
	}
	person := issuer.Token(map[string]any{"groups": []string{"contractors"}})
	who := signer{t, r, "alice", alice}
	who.must(200, "GET", "/policies", "")
	page := r.look(t, token, "text/html")
	_ = page.Body.Close()
	live := r.look(t, person, "text/event-stream")
	defer func() { _ = live.Body.Close() }()
	if page.StatusCode != 200 || live.StatusCode != 200 {
		t.Fatalf("before: %d, %d", page.StatusCode, live.StatusCode)
	}

	revoke("token:root", "group:"+issuer.URL+"#contractors", "chef:alice")
	r.awaitWhoami(t, token, 401)
	for name, secret := range map[string]string{"an owner": token, "a member of a group": person} {
		for _, path := range []string{policies, "/whoami", "/members", "/policy_groups", "/v1/projects/p1:getIamPolicy"} {
			if code, body, _ := r.askAs(t, nil, "GET", path, secret); code != 401 || !strings.Contains(body, "is revoked on this server") {
				t.Errorf("%s: GET %s: %d %s", name, path, code, body)
			}
		}
		t.Setenv("UNDERSTUDY_TOKEN", secret)
		if code, out, errs := runCommand(t, append([]string{"list"}, admin...)...); code != 1 || !strings.Contains(errs, "is revoked on this server") {
			t.Errorf("%s: gRPC: %d %s%s", name, code, out, errs)
		}
		session := r.look(t, secret, "text/html")
		_ = session.Body.Close()
		if session.StatusCode != 303 || !strings.HasPrefix(session.Header.Get("Location"), "/ui/login") {
			t.Errorf("%s: a session: %s", name, session.Status)
		}
	}
	who.must(401, "GET", "/policies", "")
	for lines, gone := bufio.NewScanner(live.Body), false; !gone; gone = strings.Contains(lines.Text(), "gone") {
		if !lines.Scan() {
			t.Fatalf("the live page ends without a word: %v", lines.Err())
		}
	}
	if code, body, _ := r.askAs(t, nil, "GET", policies, other); code != 200 {
		t.Errorf("who is not revoked: %d %s", code, body)
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "/readyz says that the file is gone", func() bool {
		code, text := r.call(t, "health", "GET", "/readyz", "")
		if code != 200 {
			t.Fatalf("the file is gone: /readyz answers %d %s", code, text)
		}
		return strings.Contains(text, `"revokedFileError"`)
	})
	if code, _, _ := r.askAs(t, nil, "GET", "/whoami", token); code != 401 {
		t.Errorf("the file is gone, and who was revoked gets %d", code)
	}
	testkit.Await(t, "the log says who was refused, and that the file is gone", func() bool {
		got := log.String()
		return strings.Contains(got, "a revoked principal asks") && strings.Contains(got, "cannot be used; principals that were revoked stay so")
	}, func() any { return log })
	counted := regexp.MustCompile(`understudy_authentications_total\{method="chef",[^}]*outcome="revoked"[^}]*} 1\n`)
	if _, metrics := r.call(t, "health", "GET", "/metrics", ""); !counted.MatchString(metrics) || !strings.Contains(metrics, `source="revoked_file"`) {
		t.Error("the metrics do not say that somebody is revoked")
	}
}

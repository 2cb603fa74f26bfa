package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"understudy/admin/audit"
	"understudy/admin/authentication/oidc/oidctest"
)

// TestWhoThatIs: a name for people stands next to the member wherever that does, and nothing is
// decided by it.
func TestWhoThatIs(t *testing.T) {
	issuer := oidctest.New(t)
	a := startAuditing(t, "", "required", func(c *config) {
		c.oidcIssuers = []string{issuer.URL + ",audience=understudy,display-claim=email,display-claim=name"}
		c.owners = append(c.owners, "oidc:"+issuer.URL+"#00u1")
	})
	const shown = "boss@example.com"
	member := "oidc:" + issuer.URL + "#00u1"
	owner := issuer.Token(map[string]any{"sub": "00u1", "email": shown, "email_verified": true})
	// Somebody else chooses the same name, and one that looks like a member.
	mimic := issuer.Token(map[string]any{"sub": "00u2", "name": shown})
	forger := issuer.Token(map[string]any{"sub": "00u3", "name": "\u202etoken:root (" + member + ")\x00"})

	a.token = owner
	const web = policies + "/web"
	expect := func(what string, answer map[string]any, path ...string) {
		t.Helper()
		if creator, display := text(answer, append(path, "creator")...), text(answer, append(path, "creatorDisplay")...); creator != member || display != shown {
			t.Errorf("%s is made by %q, shown as %q", what, creator, display)
		}
	}
	want := map[string]string{audit.AttributePrincipal: member, audit.AttributePrincipalDisplay: shown, audit.AttributeOutcome: "OK"}
	_, op := a.send("POST", policies+"?policyId=web", `{`+onlyGET+`}`)
	expect("the operation", op, "metadata")
	a.want("the policy", a.next(), want)
	_, revision := a.send("GET", "/v1/"+text(op, "response", "revision"), "")
	expect("the revision", revision)
	_, op = a.send("POST", web+"/experiments?policyExperimentId=e1", `{"policy":{"name":"projects/p1/locations/l1/policies/web",`+onlyPOST+`}}`)
	expect("the operation of the experiment", op, "metadata")
	expect("the experiment", op, "response")
	a.want("the experiment", a.next(), want)

	for _, token := range []string{mimic, forger} {
		a.token = token
		if code, answer := a.send("DELETE", web, ""); code != 403 {
			t.Errorf("who is called so may delete the policy: %d %v", code, answer)
		}
	}
	a.want("who is called so", a.next(), map[string]string{audit.AttributePrincipal: "oidc:" + issuer.URL + "#00u2", audit.AttributePrincipalDisplay: shown, audit.AttributeOutcome: "PERMISSION_DENIED"})
	a.want("who is called like a member", a.next(), map[string]string{
		audit.AttributePrincipal: "oidc:" + issuer.URL + "#00u3", audit.AttributePrincipalDisplay: "token root oidc http " + shownHost(issuer.URL) + " 00u1",
	})

	t.Setenv("UNDERSTUDY_TOKEN", owner)
	for command, want := range map[string]string{
		"revisions web": shown + " (" + member + ")", "list web": shown + " (" + member + ")", "whoami": "CALLED  " + shown,
	} {
		code, out, errs := runCommand(t, append(strings.Fields(command), "--admin="+a.bound["admin"], "--location=projects/p1/locations/l1")...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s prints %s%s, want %s", command, out, errs, want)
		}
	}
	for path, want := range map[string]string{
		"":                             `data-label="Made by"><bdi>` + shown + " (" + member + ")</bdi>",
		"/policies/web":                `<td data-label="By"><bdi>` + shown + " (" + member + ")</bdi></td>",
		"/policies/web/experiments/e1": "by <bdi>" + shown + " (" + member + ")</bdi>",
	} {
		if page := a.page(t, owner, path); !strings.Contains(page, want) || !strings.Contains(page, `title="`+shown+" ("+member) {
			t.Errorf("the page %q has no %s:\n%s", path, want, page)
		}
	}
}

// shownHost is the address in a URL of this machine, as a name for people has it.
func shownHost(url string) string {
	return strings.ReplaceAll(strings.TrimPrefix(url, "http://"), ":", " ")
}

// page is one of the location, as a session sees it.
func (r *running) page(t *testing.T, session, path string) string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+r.bound["admin"]+"/ui/projects/p1/locations/l1"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Cookie", "understudy-session="+session)
	response, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"understudy/admin/audit"
)

// submit posts a form of the page, as a browser does, with the token of a principal.
func (a *auditing) submit(token, path string, form url.Values) int {
	a.Helper()
	request, err := http.NewRequestWithContext(a.Context(), http.MethodPost, "http://"+a.bound["admin"]+path, strings.NewReader(form.Encode()))
	if err != nil {
		a.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Traceparent", traceparent)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		a.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// TestChangesOfThePageAreRecorded: what its forms do is one event each.
func TestChangesOfThePageAreRecorded(t *testing.T) {
	a := startAuditing(t, "", "required")
	const policy, experiment = "projects/p1/locations/l1/policies/web", "projects/p1/locations/l1/policies/web/experiments/e1"
	_, answer := a.send("POST", policies+"?policyId=web", "{"+onlyGET+"}")
	live := text(answer, "response", "etag")
	a.next()
	_, answer = a.send("POST", "/v1/"+policy+"/experiments?policyExperimentId=e1", `{"policy":{"name":"`+policy+`",`+onlyPOST+"}}")
	seen := text(answer, "response", "etag")
	a.next()
	for _, c := range []struct {
		token, verb, method, principal, outcome string
		form                                    url.Values
		status                                  int
	}{
		{bobsToken, "start", "StartPreviewPolicyExperiment", "token:bob", "PERMISSION_DENIED", url.Values{"etag": {seen}}, 403},
		{annsToken, "start", "StartPreviewPolicyExperiment", "token:ann", "OK", url.Values{"etag": {seen}}, 303},
		{annsToken, "commit", "CommitPolicyExperiment", "token:ann", "ABORTED", url.Values{"etag": {seen}, "parent_etag": {marker}}, 409},
		{annsToken, "commit", "CommitPolicyExperiment", "token:ann", "OK", url.Values{"etag": {seen}, "parent_etag": {live}, "require": {"failed=0"}}, 303},
	} {
		if code := a.submit(c.token, "/ui/"+experiment+"/"+c.verb, c.form); code != c.status {
			t.Errorf("the form %s of %s answered %d, want %d", c.verb, c.principal, code, c.status)
		}
		a.want("the form "+c.verb, a.next(), map[string]string{
			audit.AttributeMethod: "understudy.admin.v1.PolicyPreview/" + c.method, audit.AttributeAPI: "page", audit.AttributeClient: "127.0.0.1",
			audit.AttributePrincipal: c.principal, audit.AttributeAuthentication: "token", audit.AttributeOutcome: c.outcome,
			audit.AttributeResource: experiment, "trace": strings.Split(traceparent, "-")[1],
		})
	}
	a.none()
}

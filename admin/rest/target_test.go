package rest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"understudy/admin"
	"understudy/admin/policyfile"
	"understudy/admin/rest"
)

const edgeLocation = "/v1/projects/default/locations/local"

// edgeResponse is what the edge said.
type edgeResponse struct {
	status int
	reason string
	text   string
	header http.Header
}

// ask sends one request. Its path is sent as it is written.
func ask(t testing.TB, edge *httptest.Server, method, target, body string) edgeResponse {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, edge.URL+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	path, _, _ := strings.Cut(target, "?")
	r.URL.Opaque = "//" + r.URL.Host + path
	return exchange(t, edge, r)
}

func exchange(t testing.TB, edge *httptest.Server, r *http.Request) edgeResponse {
	t.Helper()
	response, err := edge.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := edgeResponse{status: response.StatusCode, text: string(text), header: response.Header}
	a.reason = reasonOf(text)
	return a
}

// reasonOf returns the reason of the ErrorInfo of an error; empty if text is none.
func reasonOf(text []byte) string {
	var envelope struct {
		Error struct {
			Details []struct {
				Type   string `json:"@type"`
				Reason string
			}
		}
	}
	if json.Unmarshal(text, &envelope) != nil {
		return ""
	}
	for _, d := range envelope.Error.Details {
		if strings.HasSuffix(d.Type, "google.rpc.ErrorInfo") {
			return d.Reason
		}
	}
	return ""
}

// must is ask of something that has to succeed; it returns the answer's fields.
func must(t testing.TB, edge *httptest.Server, method, target, body string) map[string]any {
	t.Helper()
	a := ask(t, edge, method, target, body)
	var fields map[string]any
	if err := json.Unmarshal([]byte(a.text), &fields); err != nil || a.status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, target, a.status, a.text)
	}
	return fields
}

// rehearsed makes the policy web, with its experiment e1 started, and returns the
// body of a commit of it.
func rehearsed(t testing.TB, edge *httptest.Server) string {
	t.Helper()
	must(t, edge, "POST", edgeLocation+"/policies?policyId=web", `{"displayName":"live"}`)
	must(t, edge, "POST", edgeLocation+"/policies/web/experiments?policyExperimentId=e1",
		`{"policy":{"name":"`+edgeLocation[len("/v1/"):]+`/policies/web","displayName":"new"}}`)
	must(t, edge, "POST", edgeLocation+"/policies/web/experiments/e1:startPreview", `{}`)
	etag := must(t, edge, "GET", edgeLocation+"/policies/web/experiments/e1", "")["etag"]
	return fmt.Sprintf(`{"etag":%q}`, etag)
}

// TestADryRunNeverCommits: however a target is written, a parameter that a call does
// not have is refused before the call.
func TestADryRunNeverCommits(t *testing.T) {
	edge := newEdge(t)
	commit := rehearsed(t, edge)
	const experiment = edgeLocation + "/policies/web/experiments/e1"
	for _, target := range []string{
		experiment + ":commit?validateOnly=true",
		experiment + ":commit?validateOnly=true;x=1",
		experiment + ":commit?validateOnly=%zz",
		experiment + ":commit?%zz",
		edgeLocation + "/policies/web%2Fexperiments%2Fe1:commit?validateOnly=true",
		edgeLocation + "/policies/web%2fexperiments/e1:commit",
		edgeLocation + "//policies/web/experiments/e1:commit",
		"/" + experiment + ":commit",
		edgeLocation + "/policies/web/experiments/./e1:commit",
		edgeLocation + "/policies/web/experiments/%2e/e1:commit",
		edgeLocation + "/policies/other/../web/experiments/e1:commit",
		edgeLocation + "/policies/other/%2E./web/experiments/e1:commit?validateOnly=true",
	} {
		if a := ask(t, edge, "POST", target, commit); a.status != http.StatusBadRequest {
			t.Errorf("POST %s: %d %s, want 400", target, a.status, a.text)
		}
	}
	if a := ask(t, edge, "GET", edgeLocation+"/policies/web?a=%zz", ""); a.status != http.StatusBadRequest || a.reason != "INVALID_PARAMETER" {
		t.Errorf("a read with a query that does not parse: %d %s", a.status, a.text)
	}
	if live := must(t, edge, "GET", edgeLocation+"/policies/web", "")["displayName"]; live != "live" {
		t.Errorf("one of them committed: the policy is %q", live)
	}
}

// TestAQueryIsUTF8: what is not is the caller's mistake, which an error can name.
func TestAQueryIsUTF8(t *testing.T) {
	port := newPort(t)
	must(t, port, "POST", edgeLocation+"/policies?policyId=web", `{}`)
	for _, target := range []string{"/policies/web?etag=%FF", "/policies/web?%FF=1", "/policies/web?etag=\xff"} {
		if a := ask(t, port, "DELETE", edgeLocation+target, ""); a.status != http.StatusBadRequest || a.reason != "INVALID_PARAMETER" {
			t.Errorf("DELETE %q: %d %s", target, a.status, a.text)
		}
	}
	if a := ask(t, port, "GET", "/policy_groups?a=%FF", ""); a.status != http.StatusBadRequest || !strings.Contains(a.text, "UTF-8") {
		t.Errorf("on a path of Chef's: %d %s", a.status, a.text)
	}
	must(t, port, "GET", edgeLocation+"/policies/web?", "")
}

// TestAColonInAnIDIsNoVerb: IDs that came by the Policyfile API may have colons, and
// the guard on parameters sees the same call as the gateway.
func TestAColonInAnIDIsNoVerb(t *testing.T) {
	edge := newEdge(t)
	for _, id := range []string{"web", "a:b", "a:undelete"} {
		a := ask(t, edge, "POST", edgeLocation+"/policies/"+id+":undelete?validateOnly=true", `{}`)
		if a.status != http.StatusBadRequest || a.reason != "UNKNOWN_PARAMETER" {
			t.Errorf("undelete of %s with a parameter that it has not: %d %s", id, a.status, a.text)
		}
		if a := ask(t, edge, "GET", edgeLocation+"/policies/"+id, ""); a.reason != "RESOURCE_NOT_FOUND" {
			t.Errorf("GET of %s: %d %s", id, a.status, a.text)
		}
	}
}

// TestAParameterHasOneSpelling: of two spellings one would count, by chance.
func TestAParameterHasOneSpelling(t *testing.T) {
	edge := newEdge(t)
	must(t, edge, "POST", edgeLocation+"/policies?policyId=web", `{}`)
	for range 20 {
		for target, method := range map[string]string{
			"/policies/web?validateOnly=true&validate_only=false":                   "DELETE",
			"/policies/web?validateOnly=true&validate_only=true":                    "DELETE",
			"/policies?pageSize=1&page_size=2":                                      "GET",
			"/policies/web?updateMask=displayName&update_mask=*":                    "PATCH",
			"/policies?policyId=a&policy_id=b":                                      "POST",
			"/policies/web/experiments/e1?validateOnly=1&validate_only=0":           "DELETE",
			"/policies/web/experiments?policyExperimentId=a&policy_experiment_id=b": "POST",
		} {
			body := ""
			if method == "PATCH" || method == "POST" {
				body = `{}`
			}
			a := ask(t, edge, method, edgeLocation+target, body)
			if a.status != http.StatusBadRequest || a.reason != "INVALID_PARAMETER" {
				t.Fatalf("%s %s: %d %s", method, target, a.status, a.text)
			}
		}
	}
	if _, deleted := must(t, edge, "GET", edgeLocation+"/policies/web", "")["deleteTime"]; deleted {
		t.Error("a dry run deleted the policy")
	}
}

// TestAMalformedParameterIsNamed: the error names the parameter and what it looks like, in
// the words of the API.
func TestAMalformedParameterIsNamed(t *testing.T) {
	edge := newEdge(t)
	for query, want := range map[string]string{
		"requirements.minRequestCount=abc":                                "Invalid field 'requirements.minRequestCount': It is a whole number, such as 10000.",
		"requirements.min_request_count=":                                 "Invalid field 'requirements.min_request_count': It is a whole number, such as 10000.",
		"requirements.maxFailedRatio=few&requirements.minRequestCount=10": "Invalid field 'requirements.maxFailedRatio': It is a number, such as 0.001.",
		"requirements.requireAllNodes=yes":                                "Invalid field 'requirements.requireAllNodes': It is true or false.",
		"requirements.scope=NOPE":                                         "Invalid field 'requirements.scope': It is one of SCOPE_UNSPECIFIED, PRESENT_PAIR, ALL_PAIRS.",
		"requirements.minDuration=long":                                   "Invalid field 'requirements.minDuration': It is a duration, such as 3600s.",
		"requirements=%7B%7D":                                             "Invalid field 'requirements': It has fields: write each as a parameter, such as requirements.minRequestCount.",
	} {
		a := ask(t, edge, "GET", edgeLocation+"/policies/web/experiments/e1/report?"+query, "")
		if a.status != http.StatusBadRequest || a.reason != "INVALID_PARAMETER" || !strings.Contains(a.text, want) {
			t.Errorf("%s: got %d %s\nwant %s", query, a.status, a.text, want)
		}
	}
}

// TestErrorsAreReadableAsTheyAre: what people compare with <, > and & is not escaped for pages.
func TestErrorsAreReadableAsTheyAre(t *testing.T) {
	a := ask(t, newEdge(t), "POST", edgeLocation+"/policies?policyId=web", `{"requests>=1&<":0}`)
	if a.status != http.StatusBadRequest || !strings.Contains(a.text, "'requests>=1&<'") || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("got %d %s, want 400 with the field as it was given, and nosniff", a.status, a.text)
	}
}

// newPort serves both APIs, as the admin port does.
func newPort(t testing.TB) *httptest.Server {
	t.Helper()
	server, err := admin.NewServer(admin.Config{Store: newBoltStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	edge, err := rest.New(rest.Config{Services: server})
	if err != nil {
		t.Fatal(err)
	}
	api, err := policyfile.New(policyfile.Config{Admin: server, Project: "default"})
	if err != nil {
		t.Fatal(err)
	}
	port := httptest.NewServer(api.Handler(edge))
	t.Cleanup(port.Close)
	return port
}

// TestTargetsOfThePort are the targets of both APIs on it: those that a proxy could
// read differently are refused, and what Chef's clients send is not.
func TestTargetsOfThePort(t *testing.T) {
	port := newPort(t)
	for target, want := range map[string]int{
		"/policy_groups":                                    200,
		"/policy_groups/":                                   200,
		"/organizations/default/policy_groups":              200,
		"/organizations/default/policy_groups/":             200,
		"/policies/web%3Aa":                                 404,
		"/policies/web%20a":                                 400,
		"/policies/...":                                     404,
		"/cookbook_artifacts?num_versions=a%3Bb":            200,
		"//policy_groups":                                   400,
		"/organizations//policy_groups":                     400,
		"/organizations/default//policy_groups":             400,
		"/organizations/default%2Fpolicy_groups":            400,
		"/organizations/other/../default/policy_groups":     400,
		"/organizations/other/%2e%2E/default/policy_groups": 400,
		"/policy_groups/local/policies/..":                  400,
		"/policy_groups/local%2fpolicies":                   400,
		"/policy_groups?a=%zz":                              400,
		"/policy_groups?a=1;b=2":                            400,
		"/openapi.json":                                     200,
		"//openapi.json":                                    400,
		"/v1/../openapi.json":                               400,
		"/openapi.json?x=1":                                 400,
		"/%2e%2e/openapi.json":                              400,
	} {
		if a := ask(t, port, "GET", target, ""); a.status != want {
			t.Errorf("GET %s: %d %s, want %d", target, a.status, a.text, want)
		}
	}
}

// FuzzTarget sends any target to the port: whatever has two readings is refused with
// 400, and every answer is JSON.
func FuzzTarget(f *testing.F) {
	for _, seed := range []string{
		edgeLocation + "/policies/a%2Fb:undelete?validateOnly=true", "//policies", "/v1/./x", "/policies/%2e%2e/x", "/v1?a=1;b=2",
		"/organizations/default/policy_groups/", "/openapi.json?x=%zz", edgeLocation + "/policies/a:b:undelete", "/%252e%252e/",
	} {
		f.Add(seed)
	}
	port := newPort(f)
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Host != "" {
			return
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader(`{}`))
		r.URL.Path, r.URL.RawPath, r.URL.RawQuery = u.Path, u.RawPath, u.RawQuery
		port.Config.Handler.ServeHTTP(w, r)
		if !json.Valid(w.Body.Bytes()) || w.Code >= 500 && w.Code != http.StatusNotImplemented {
			t.Errorf("%q: %d %s", target, w.Code, w.Body)
		}
		sent := u.EscapedPath()
		_, bad := url.ParseQuery(u.RawQuery)
		ambiguous := bad != nil || strings.Contains(sent, "//") || strings.Contains(strings.ToUpper(sent), "%2F")
		for segment := range strings.SplitSeq(u.Path, "/") {
			ambiguous = ambiguous || segment == "." || segment == ".."
		}
		if ambiguous && w.Code != http.StatusBadRequest {
			t.Errorf("%q has two readings: %d %s", target, w.Code, w.Body)
		}
	})
}

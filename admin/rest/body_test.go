package rest_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestABodyThatIsAFieldIsRequired: a script whose body got lost must not empty a live
// policy.
func TestABodyThatIsAFieldIsRequired(t *testing.T) {
	edge := newEdge(t)
	rehearsed(t, edge)
	for target, method := range map[string]string{
		"/policies/web?updateMask=*":                     "PATCH",
		"/policies/web":                                  "PATCH",
		"/policies?policyId=x":                           "POST",
		"/policies/web/experiments?policyExperimentId=x": "POST",
		"/policies/web/experiments/e1?updateMask=*":      "PATCH",
		"/config?updateMask=*":                           "PATCH",
	} {
		if a := ask(t, edge, method, edgeLocation+target, ""); a.status != http.StatusBadRequest || a.reason != "REQUIRED_FIELD" {
			t.Errorf("%s %s without a body: %d %s", method, target, a.status, a.text)
		}
		for _, body := range []string{"null", " ", "[]"} {
			if a := ask(t, edge, method, edgeLocation+target, body); a.status != http.StatusBadRequest {
				t.Errorf("%s %s with the body %q: %d %s", method, target, body, a.status, a.text)
			}
		}
	}
	if live := must(t, edge, "GET", edgeLocation+"/policies/web", "")["displayName"]; live != "live" {
		t.Errorf("the policy was changed to %q", live)
	}
	// What a body may leave out altogether needs none.
	if a := ask(t, edge, "POST", edgeLocation+"/policies/web/experiments/e1:stopPreview", ""); a.status != http.StatusOK {
		t.Errorf("a stop without a body: %d %s", a.status, a.text)
	}
}

// TestBodiesSayWhatTheyAre: a body in another type, charset or coding is refused as
// such, by both APIs, and not read as JSON.
func TestBodiesSayWhatTheyAre(t *testing.T) {
	port := newPort(t)
	for _, tt := range []struct {
		header, value string
		want          int
	}{
		{"Content-Type", "application/json", 200},
		{"Content-Type", "application/json; charset=UTF-8", 200},
		{"Content-Type", "application/merge-patch+json", 200},
		{"Content-Type", "application/json; charset=utf-16", 415},
		{"Content-Type", "application/json; charset=latin1", 415},
		{"Content-Type", "text/plain", 415},
		{"Content-Encoding", "identity", 200},
		{"Content-Encoding", "gzip", 415},
		{"Content-Encoding", "identity, gzip", 415},
		{"Content-Encoding", "br", 415},
	} {
		for target, method := range map[string]string{
			edgeLocation + "/policies?policyId=x&validateOnly=true": "POST", "/policy_groups/local": "PUT",
		} {
			r, err := http.NewRequestWithContext(t.Context(), method, port.URL+target, strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set(tt.header, tt.value)
			a := exchange(t, port, r)
			if (a.status == 415) != (tt.want == 415) || method == "POST" && a.status != tt.want {
				t.Errorf("%s %s with %s: %s: %d %s, want %d", method, target, tt.header, tt.value, a.status, a.text, tt.want)
			}
			if tt.want == 415 && method == "POST" && a.header.Get("Accept-Encoding") != "identity" {
				t.Errorf("the answer to %s does not say which codings are understood", tt.value)
			}
		}
	}
}

// TestNothingIsAtASlash: a path with a slash at its end is not there, and whatever Allow
// names is allowed.
func TestNothingIsAtASlash(t *testing.T) {
	edge := newEdge(t)
	rehearsed(t, edge)
	for _, path := range []string{"/policies/", "/config/", "/policies/web/", "/policies/web/experiments/e1:commit/", "/nothing"} {
		for _, method := range []string{"GET", "POST", "PUT"} {
			if a := ask(t, edge, method, edgeLocation+path, ""); a.status != http.StatusNotFound || a.reason != "UNKNOWN_PATH" || a.header.Get("Allow") != "" {
				t.Errorf("%s %s: %d %s, Allow: %s", method, path, a.status, a.text, a.header.Get("Allow"))
			}
		}
	}
	if a := ask(t, edge, "GET", "/openapi.json/", ""); a.status != http.StatusNotFound {
		t.Errorf("/openapi.json/: %d", a.status)
	}
	for _, path := range []string{"/policies", "/config", "/policies/web", "/policies/web/experiments/e1:commit"} {
		a := ask(t, edge, "PUT", edgeLocation+path, `{}`)
		if a.status != http.StatusMethodNotAllowed {
			t.Errorf("PUT %s: %d %s", path, a.status, a.text)
		}
		for allowed := range strings.SplitSeq(a.header.Get("Allow"), ", ") {
			if a := ask(t, edge, allowed, edgeLocation+path+"?unknown=1", ""); a.status == http.StatusMethodNotAllowed || a.status == http.StatusNotFound {
				t.Errorf("%s %s is said to be allowed: %d", allowed, path, a.status)
			}
		}
	}
}

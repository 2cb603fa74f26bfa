package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"understudy/admin"
	"understudy/admin/rest"
)

const edgePolicies = edgeLocation + "/policies"

// browserRequests are requests as programs and browsers send them, and the reason for which
// each is refused; empty if it is not.
var browserRequests = map[string]struct {
	method, target, body, host string
	headers                    map[string]string
	want                       string
}{
	"a program":                {method: "GET", host: "localhost:8181"},
	"an address":               {method: "GET", host: "127.0.0.1:8181"},
	"an address of IPv6":       {method: "GET", host: "[::1]:8181"},
	"an address without port":  {method: "GET", host: "[::1]"},
	"a name that is allowed":   {method: "GET", host: "Admin.example.com"},
	"a rebound name":           {method: "GET", host: "evil.example.com:8181", want: "FOREIGN_HOST"},
	"a rebound name, document": {method: "GET", target: "/openapi.json", host: "evil.example.com:8181", want: "FOREIGN_HOST"},
	"a rebound name, change":   {method: "POST", host: "evil.example.com:8181", body: `{}`, want: "FOREIGN_HOST"},
	"a name like localhost":    {method: "GET", host: "localhost.evil.example.com", want: "FOREIGN_HOST"},
	"a change by a page": {
		method: "POST", host: "localhost:8181", body: `{"displayName":"x"}`, want: "FOREIGN_ORIGIN",
		headers: map[string]string{"Origin": "https://evil.example.com"},
	},
	"a change by a page of no origin": {
		method: "POST", host: "localhost:8181", want: "FOREIGN_ORIGIN", headers: map[string]string{"Origin": "null"},
	},
	"a change by another port": {
		method: "POST", host: "localhost:8181", want: "FOREIGN_ORIGIN", headers: map[string]string{"Origin": "http://localhost:3000"},
	},
	"a change that the browser marks": {
		method: "POST", host: "localhost:8181", want: "FOREIGN_ORIGIN", headers: map[string]string{"Sec-Fetch-Site": "cross-site"},
	},
	"a deletion by a page": {
		method: "DELETE", target: edgePolicies + "/web", host: "localhost:8181", want: "FOREIGN_ORIGIN",
		headers: map[string]string{"Origin": "https://evil.example.com"},
	},
}

// TestBrowsersPages: a page of another site, in a browser that can reach the API, can
// neither change anything nor read by a name of its own.
func TestBrowsersPages(t *testing.T) {
	server, err := admin.NewServer(admin.Config{Store: newBoltStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := rest.New(rest.Config{Services: server, Guard: rest.Guard{Hosts: []string{"admin.example.com"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range browserRequests {
		t.Run(name, func(t *testing.T) {
			target := tt.target
			if target == "" {
				target = edgePolicies
			}
			r := httptest.NewRequest(tt.method, target, strings.NewReader(tt.body))
			r.Host = tt.host
			for name, value := range tt.headers {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if tt.want == "" {
				if w.Code != http.StatusOK {
					t.Errorf("the answer is %d %s, want 200", w.Code, w.Body)
				}
				return
			}
			if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("the answer is %d %s, want 403 with %s", w.Code, w.Body, tt.want)
			}
		})
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// usageService is an external service that knows one token and denies everything.
type usageService struct {
	mu    sync.Mutex
	token string
	asked int
}

func (u *usageService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var body struct {
		Context map[string]string          `json:"context"`
		Request map[string]json.RawMessage `json:"request"`
	}
	err := json.NewDecoder(r.Body).Decode(&body)
	if err != nil || r.URL.Path != "/v1/check" || r.Header.Get("X-Auth-Token") != u.token || body.Request["request"] == nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	u.asked++
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, `{"message": "Not `+body.Context["method"]+`."}`)
}

// change sets the token.
func (u *usageService) change(t *testing.T, file, token string) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.token = token
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (u *usageService) decided() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.asked
}

// usagePolicy is a policy that asks an external service.
func usagePolicy(endpoint string) string {
	return fmt.Sprintf(`{"rules":[{"ruleId":"usage","externalService":{"endpointUrl":%q}}]}`, endpoint)
}

// TestAnExternalServiceDecides goes the whole way: a policy that is accepted by the
// API, a check over gRPC, a call with the token of the file as it is now, and the
// service's message in the answer.
func TestAnExternalServiceDecides(t *testing.T) {
	t.Parallel()
	u := &usageService{}
	service := httptest.NewServer(u)
	t.Cleanup(service.Close)
	file := filepath.Join(t.TempDir(), "token")
	u.change(t, file, "first")
	host := strings.TrimPrefix(service.URL, "http://")
	r := startServer(t, func(c *config) {
		c.external.tokenFiles, c.external.allow = []string{"http://" + host + "=" + file}, []string{"127.0.0.1"}
	})
	code, body := r.call(t, "admin", "POST", policies+"?policyId=shop", usagePolicy("http://me:s3cr3t@"+host))
	if code != 400 || !strings.Contains(body, "policy.rules[0].external_service.endpoint_url") || strings.Contains(body, "s3cr3t") {
		t.Errorf("a wrong endpoint is answered with %d: %s", code, body)
	}
	r.change(t, policies+"?policyId=shop", usagePolicy(service.URL))
	for i, token := range []string{"first", "second"} {
		u.change(t, file, token)
		request := question{method: "GET", path: "/x", service: "web"}.request()
		request.Attributes.ContextExtensions = map[string]string{"policy": "shop"}
		response, err := r.authz.Check(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if got := response.GetDeniedResponse().GetBody(); got != "Not GET." {
			t.Errorf("with the %s token the answer is %v", token, response)
		}
		if n := u.decided(); n != i+1 {
			t.Errorf("the service decided %d times, want %d", n, i+1)
		}
	}
	if _, page := r.call(t, "health", "GET", "/metrics", ""); !strings.Contains(page, "understudy_external_calls_total{") {
		t.Error("the calls are not on the page of metrics")
	}
}

func TestExternalAllow(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"127.0.0.0/8": "127.0.0.0/8", "127.0.0.1/8": "127.0.0.0/8", "127.0.0.1": "127.0.0.1/32", "::ffff:127.0.0.1": "127.0.0.1/32",
		"::1": "::1/128", "fd00::/8": "fd00::/8",
	} {
		if got, ok := prefixOf(entry); !ok || got.String() != want {
			t.Errorf("%s is %v, want %s", entry, got, want)
		}
	}
	if _, ok := prefixOf("localhost"); ok {
		t.Error("localhost is taken for an address")
	}
}

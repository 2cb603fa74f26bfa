package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestHealthSaysWhatIsMissing: a server whose store has lost policies is ready, and what
// asks for its health is where an operator looks.
func TestHealthSaysWhatIsMissing(t *testing.T) {
	for answer, want := range map[string]string{
		`{"ready": true}`: "ready\n",
		`{"ready": true, "missingPolicies": ["web", "shop"], "missingPolicyCount": 5, "help": "Restore them."}`: "ready\nmissing: web, shop and 3 more. Restore them.\n",
		`{"ready": true, "notApplied": ["web/next"], "notAppliedCount": 1}`:                                     "ready\nnot applied: web/next. The last good version of a policy decides; without one it denies.\n",
		`{"ready": true, "absentPolicy": "web", "absentPolicyHelp": "There is no policy web."}`:                 "ready\nThere is no policy web.\n",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
		var out bytes.Buffer
		if err := checkHealth(t.Context(), strings.TrimPrefix(server.URL, "http://"), healthOutput{to: &out}); err != nil || out.String() != want {
			t.Errorf("%s: got %q, %v; want %q", answer, out.String(), err, want)
		}
		server.Close()
	}
}

// TestHealthAsJSON prints the answer whole, also of a server that is not ready.
func TestHealthAsJSON(t *testing.T) {
	for answer, ready := range map[string]bool{`{"ready": true, "other": 1}`: true, `{"ready": false, "reason": "no policies"}`: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
		var out, want bytes.Buffer
		if err := json.Indent(&want, []byte(answer+"\n"), "", "  "); err != nil {
			t.Fatal(err)
		}
		if err := checkHealth(t.Context(), strings.TrimPrefix(server.URL, "http://"), healthOutput{&out, true}); (err == nil) != ready || out.String() != want.String() {
			t.Errorf("%s: got %q, %v", answer, out.String(), err)
		}
		server.Close()
	}
}

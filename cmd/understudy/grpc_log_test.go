package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"understudy/authz/diagnostics/logtest"
)

// TestLinesOfGRPC: what grpc-gateway logs by itself, here of a Content-Type that does not
// parse, has the format of the log, and nothing of the request is in it at INFO.
func TestLinesOfGRPC(t *testing.T) {
	for level, want := range map[string]bool{"debug": true, "info": false} {
		var out logtest.Buffer
		r := startServerWithLog(t, &out, func(c *config) { c.logFormat, c.logLevel = "json", level })
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+r.bound["admin"]+"/v1/projects/p1/locations/l1/policies", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header["Content-Type"] = []string{""}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("the answer is %s, want 200", response.Status)
		}
		text := out.String()
		if got := strings.Contains(text, "Content-Type"); got != want {
			t.Errorf("at %s the log is %q", level, text)
		}
		for line := range strings.Lines(text) {
			if !json.Valid([]byte(line)) {
				t.Errorf("a line of the log is %q", line)
			}
		}
	}
}

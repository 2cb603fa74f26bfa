package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLinesOfGRPC: what grpc-gateway logs by itself, here of a Content-Type that does not
// parse, has the format of the log, and nothing of the request is in it at INFO.
func TestLinesOfGRPC(t *testing.T) {
	before := grpcLog.Load()
	t.Cleanup(func() { grpcLog.Store(before) })
	for level, want := range map[slog.Level]bool{slog.LevelDebug: true, slog.LevelInfo: false} {
		var out lockedBuffer
		grpcLog.Store(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level})))
		r := httptest.NewRequest("GET", "/v1/projects/default/locations/local/policies", nil)
		r.Header["Content-Type"] = []string{""}
		w := httptest.NewRecorder()
		bothAPIs(t).ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("the answer is %d %s", w.Code, w.Body)
		}
		text := out.String()
		if got := strings.Contains(text, "Content-Type"); got != want {
			t.Errorf("at %v the log is %q", level, text)
		}
		for line := range strings.Lines(text) {
			if !json.Valid([]byte(line)) {
				t.Errorf("a line of the log is %q", line)
			}
		}
	}
}

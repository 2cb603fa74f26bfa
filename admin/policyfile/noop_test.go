package policyfile_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"understudy/admin"
	"understudy/admin/policyfile"
)

// TestALockThatEndsEnforcementIsWarnedOf: whether it is refused or wanted, the log says so,
// once, with the policy.
func TestALockThatEndsEnforcementIsWarnedOf(t *testing.T) {
	var log bytes.Buffer
	server, err := admin.NewServer(admin.Config{Store: backends(t)[1].open(t)})
	if err != nil {
		t.Fatal(err)
	}
	api, err := policyfile.New(policyfile.Config{Admin: server, Project: "p-noop", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	handler := api.Handler(http.NotFoundHandler())
	document, err := policyfile.Compose(t.Context(), "web", map[string]string{"a.rego": "package shop\n\nallow := true\n"}, []string{"shop/allow"})
	if err != nil {
		t.Fatal(err)
	}
	empty := seal(t, `{"name":"web","run_list":[],"cookbook_locks":{}}`)
	for _, c := range []struct {
		query, lock  string
		status       int
		warned, says string
	}{
		{"", string(document), 201, "", ""},
		{"", empty, 409, "level=WARN", "was refused"},
		{"?allow_no_op=true", empty, 200, "level=WARN", "has replaced one with rules"},
		{"", empty, 200, "", ""},
	} {
		log.Reset()
		r := httptest.NewRequest("PUT", "/policy_groups/dev/policies/web"+c.query, strings.NewReader(c.lock))
		r.Host = "localhost"
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Fatalf("the status is %d, want %d: %s", w.Code, c.status, w.Body)
		}
		got := log.String()
		if c.warned == "" && got != "" || c.warned != "" && (strings.Count(got, c.warned) != 1 || !strings.Contains(got, c.says) || !strings.Contains(got, "policies/web")) {
			t.Errorf("%d is logged as %q", c.status, got)
		}
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/cmd/understudy/storage"
)

// secret stands in whatever of a request may not be seen anywhere.
const secret = "m4rk3r-0815"

// secretRequest is one with a secret in its headers, query and body.
func secretRequest(n, bodySize int) *authv3.CheckRequest {
	r := question{method: "POST", path: fmt.Sprintf("/orders/%d?token=%s", n, secret), service: "web", token: secret}.request()
	h := r.Attributes.Request.Http
	h.Headers["x-secret"], h.Headers["cookie"] = secret, "session="+secret
	h.Body = `{"password": "` + secret + `", "fill": "` + strings.Repeat("x", bodySize) + `"}`
	h.Headers["content-length"] = fmt.Sprint(len(h.Body))
	return r
}

// replayedReport is what a report says of requests that were replayed, and of others.
type replayedReport struct {
	RequestCount string
	Replayed     struct {
		Counts struct{ RequestCount, UnchangedCount, NewlyDeniedCount, FailedCount, DroppedCount string }
	}
}

// awaitReplayed polls the report of an experiment until so many requests were replayed, and
// returns it as it came.
func (p *started) awaitReplayed(t *testing.T, experiment string, requests int) (r replayedReport, text string) {
	t.Helper()
	return pollReport(t, p, experiment, fmt.Sprintf("%d requests are replayed", requests), func(r replayedReport) bool {
		return r.Replayed.Counts.RequestCount == fmt.Sprint(requests)
	})
}

// secretModules :: experiment → its rule, which reads what is secret, and denies, or fails.
var secretModules = map[string]string{
	"tighter": "default allow := false\n\n" + `allow if { input.parsed_body.password != ""; input.parsed_query.token[0] != ""; not startswith(input.parsed_path[1], "1") }`,
	"failing": `allow := input.attributes.request.http.headers["x-secret"]`,
	"torn":    "allow := true if input.parsed_body.password\n\nallow := false if input.parsed_query.token",
}

// TestWhatIsKeptIsSeenNowhere sends requests with secrets to a process that keeps them, and has
// them replayed for experiments that read the secrets, deny, fail, and lose their process on the
// way. The reports have counts; the secrets are in no answer, metric, log or file.
func TestWhatIsKeptIsSeenNowhere(t *testing.T) {
	t.Parallel()
	const kept = 40
	dir := t.TempDir()
	p := startProcess(t, "--location", "projects/p1/locations/l1", "--rehearsal-requests", "1000", "--log-level", "debug",
		"--store", storage.BoltScheme+filepath.Join(dir, "understudy.db"), "--snapshot-file", filepath.Join(dir, "snapshot"))
	p.must(t, "POST", policies+"?policyId=default", asText(t, map[string]any{
		"rules":   []any{map[string]any{"rego": map[string]any{}}},
		"modules": map[string]string{"a.rego": "package envoy.authz\n\nallow if input.attributes.request.http.headers[\"x-secret\"] != \"\"\n"},
	}))
	p.awaitAllowedSecret(t)
	for i := 1; i < kept; i++ {
		p.allowsSecret(t, secretRequest(i, 10))
		if i%10 == 0 {
			p.allowsSecret(t, secretRequest(i, 4<<10)) // too large to be kept
		}
	}
	var seen strings.Builder
	experiments := policies + "/default/experiments"
	for name, rule := range secretModules {
		p.must(t, "POST", experiments+"?policyExperimentId="+name, asText(t, map[string]any{"policy": map[string]any{
			"name":  strings.TrimPrefix(policies, "/v1/") + "/default",
			"rules": []any{map[string]any{"rego": map[string]any{}}}, "modules": map[string]string{"a.rego": "package envoy.authz\n\n" + rule + "\n"},
		}}))
		p.must(t, "POST", experiments+"/"+name+":startPreview", "{}")
		r, text := p.awaitReplayed(t, experiments+"/"+name, kept)
		t.Logf("%s: %+v", name, r)
		if r.RequestCount != "" && r.RequestCount != "0" {
			t.Errorf("%s: %s requests are compared, want none: they are replayed", name, r.RequestCount)
		}
		if c := r.Replayed.Counts; name == "tighter" && (c.NewlyDeniedCount != "11" || c.UnchangedCount != "29") || name != "tighter" && c.FailedCount != fmt.Sprint(kept) {
			t.Errorf("%s: the counts are %+v", name, c)
		}
		seen.WriteString(text)
		if code, text := p.call(t, "admin", "POST", experiments+"/"+name+":commit", asText(t, map[string]any{
			"etag": etagOf(t, p, experiments+"/"+name), "requirements": map[string]any{"minRequestCount": "1"},
		})); code != http.StatusBadRequest || !strings.Contains(text, "REQUIREMENTS_NOT_MET") {
			t.Errorf("%s: a commit that needs a request is answered with %d: %s", name, code, text)
		}
		for _, child := range childrenOf(t, p.process.Pid) {
			if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		p.must(t, "POST", experiments+"/"+name+":stopPreview", "{}")
		p.must(t, "POST", experiments+"/"+name+":startPreview", "{}")
	}
	p.allowsSecret(t, secretRequest(1, 10))
	p.until(t, func(page string) bool {
		return sum(page, `understudy_preview_comparisons_total\{.*\}`) == float64(len(secretModules))
	})
	_, page := p.metricsPage(t, "")
	seen.WriteString(page)
	for _, path := range []string{experiments, policies, "/v1/projects/p1/locations/l1/nodes", "/v1/projects/p1/locations/l1/operations"} {
		_, text := p.call(t, "admin", "GET", path, "")
		seen.WriteString(text)
	}
	if err := p.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(); err != nil {
		t.Errorf("the process ends with %v", err)
	}
	seen.WriteString(p.log.String())
	for _, file := range filesIn(t, dir) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		seen.Write(content)
	}
	if at := strings.Index(seen.String(), secret); at >= 0 {
		t.Errorf("the secret is seen: %q", seen.String()[max(0, at-300):at+50])
	}
	if !strings.Contains(seen.String(), "/orders/1") {
		t.Error("no path is seen either: this test looks at nothing")
	}
}

// awaitAllowedSecret sends the first request until the policy is there. Those that are denied
// before have no policy, and are not kept.
func (p *started) awaitAllowedSecret(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		answer, err := p.authz.Check(t.Context(), secretRequest(0, 10))
		if err == nil && answer.GetStatus().GetCode() == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the request is not allowed: %v, %v", answer, err)
		}
	}
}

func (p *started) allowsSecret(t *testing.T, r *authv3.CheckRequest) {
	t.Helper()
	if answer, err := p.authz.Check(t.Context(), r); err != nil || answer.GetStatus().GetCode() != 0 {
		t.Fatalf("got %v, %v; want that it is allowed", answer, err)
	}
}

func etagOf(t *testing.T, p *started, name string) string {
	t.Helper()
	_, text := p.call(t, "admin", "GET", name, "")
	var r struct{ Etag string }
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return r.Etag
}

// filesIn are all files below a directory.
func filesIn(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

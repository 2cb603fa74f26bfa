package check_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"understudy/cmd/testkit"
)

const (
	location = "projects/p1/locations/l1"
	policies = "/v1/" + location + "/policies"
)

// server is the binary in a process of its own, which ends with the test.
type server struct {
	t       *testing.T
	process *exec.Cmd
	// authz is for checks over HTTP. Each is host:port.
	authz, admin, health string
	// token is that of calls of the admin API; empty if it needs none.
	token string
	// log is complete once the process has ended.
	log bytes.Buffer
}

// startServer starts understudy serve, with more variables in its environment, and waits until its health port answers.
func startServer(t *testing.T, variables []string, flags ...string) *server {
	t.Helper()
	binary := os.Getenv("UNDERSTUDY")
	if binary == "" {
		t.Fatal("UNDERSTUDY names no binary: run make test-deploy")
	}
	s := &server{t: t, authz: testkit.FreeAddress(), admin: testkit.FreeAddress(), health: testkit.FreeAddress()}
	folder := t.TempDir()
	s.process = exec.Command(binary, append([]string{
		"serve", "--location", location, "--authz-addr", testkit.FreeAddress(), "--http-authz-addr", s.authz, "--admin-addr", s.admin,
		"--health-addr", s.health, "--store", "bolt://" + filepath.Join(folder, "understudy.db"),
		// A busy machine is no slow policy.
		"--decision-timeout", testkit.Patience.String(), "--preview-timeout", testkit.Patience.String(),
	}, flags...)...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "UNDERSTUDY") && !strings.HasPrefix(variable, "OTEL_") {
			s.process.Env = append(s.process.Env, variable)
		}
	}
	s.process.Env = append(append(s.process.Env, "XDG_STATE_HOME="+folder), variables...)
	s.process.Stdout, s.process.Stderr = &s.log, &s.log
	if err := testkit.Start(s.process); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		testkit.Kill(s.process)
		if t.Failed() {
			t.Logf("the log of the server:\n%s", &s.log)
		}
	})
	testkit.Await(t, "the health port answers", func() bool {
		response, err := http.Get("http://" + s.health + "/healthz")
		if err == nil {
			_ = response.Body.Close()
		}
		return err == nil
	})
	return s
}

// stop ends the server as an operator does.
func (s *server) stop() {
	s.t.Helper()
	if err := s.process.Process.Signal(os.Interrupt); err != nil {
		s.t.Fatal(err)
	}
	if err := s.process.Wait(); err != nil {
		s.t.Fatalf("the server ended with %v:\n%s", err, &s.log)
	}
}

// awaitReady waits until the server is ready.
func (s *server) awaitReady() {
	s.t.Helper()
	testkit.Await(s.t, "the server is ready", func() bool {
		code, _ := s.request("GET", s.health, "/readyz", "")
		return code == http.StatusOK
	})
}

// request returns the status and the text of an answer.
func (s *server) request(method, address, path, body string) (int, string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" && address == s.admin {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// change makes a call of the admin API that has to succeed.
func (s *server) change(method, path, body string) {
	s.t.Helper()
	if code, answer := s.request(method, s.admin, path, body); code != http.StatusOK {
		s.t.Fatalf("%s %s is answered with %d: %s", method, path, code, answer)
	}
}

// content is that of a policy with one module, as JSON.
func content(rego string) string {
	return fmt.Sprintf(`{"rules":[{"rego":{}}],"modules":{"a.rego":%q}}`, "package envoy.authz\n\n"+rego+"\n")
}

// createPolicy creates a policy and waits until it decides.
func (s *server) createPolicy(id, rego string) {
	s.t.Helper()
	s.awaitReady()
	s.change("POST", policies+"?policyId="+id, content(rego))
	testkit.Await(s.t, "the policy "+id+" decides", func() bool {
		_, ready := s.request("GET", s.health, "/readyz", "")
		return strings.Contains(ready, `"policies":`) && !strings.Contains(ready, `"policies":0`)
	})
}

// check asks a policy over HTTP, as Envoy's http_service does, and returns the status.
func (s *server) check(policy, method, path, body string) int {
	s.t.Helper()
	code, _ := s.request(method, s.authz, "/envoy@"+policy+path, body)
	return code
}

// checks asks a number of times.
func (s *server) checks(n int, policy, path string) {
	s.t.Helper()
	for range n {
		s.check(policy, "GET", path, "")
	}
}

package supervisor_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"understudy/authz/diagnostics/logtest"
	"understudy/authz/rehearsal/child"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/supervisor/supervisortest"
)

// TestWithoutASandboxItGoesOn has children that cannot be confined, as on a system that has no
// seccomp: they do their work, and the log says once why they are not confined.
func TestWithoutASandboxItGoesOn(t *testing.T) {
	log := &logtest.Buffer{}
	unconfined := supervisortest.StartWith(child.Options{Build: "test", Confine: func() error { return errors.New("this kernel has none") }})
	var last supervisor.Child
	s, err := supervisor.New(supervisor.Config{
		Build: "test", Logger: slog.New(slog.NewTextHandler(log, nil)),
		Start: func() (c supervisor.Child, err error) {
			c, err = unconfined()
			last = c
			return c, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 3 {
		if err := s.Compile(t.Context(), policy("true")); err != nil {
			t.Fatal(err)
		}
		c := last
		c.Kill()
		c.Wait()
	}
	var said []string
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "without a sandbox") {
			said = append(said, line)
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], "level=INFO") || !strings.Contains(said[0], `reason="this kernel has none"`) {
		t.Errorf("the log says of the sandbox: %q; want one line with the reason", said)
	}
}

// TestNothingIsSaidOfASandbox compiles in a process that is confined.
func TestNothingIsSaidOfASandbox(t *testing.T) {
	s, _, log := start(t)
	if err := s.Compile(t.Context(), policy("true")); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); strings.Contains(got, "sandbox") {
		t.Errorf("the log is %q", got)
	}
}

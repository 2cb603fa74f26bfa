package sidecar_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/diagnostics"
	"understudy/authz/diagnostics/logtest"
	"understudy/authz/sidecar"
	"understudy/rego"
)

// secret stands for what a caller sends.
const secret = "bearer-of-the-caller"

// quoting panics with what it works at, as a library may, and as the runtime does.
func quoting(*authz.ReadBudget) (rego.Input, error) { panic("cannot read " + secret) }
func outOfRange(*authz.ReadBudget) (rego.Input, error) {
	return rego.Input{}, errors.New(strings.Split(secret, "-")[len(secret)])
}
func wrongAnswer(*authz.ReadBudget) (rego.Input, error) { panic(errors.New(secret)) }

// TestAPanicLeavesATrace panics in each part of the decision path: one line at ERROR says
// what and where, and nothing of the request, and each is counted.
func TestAPanicLeavesATrace(t *testing.T) {
	for _, c := range []struct {
		name, place  string
		operation    authz.Operation
		source       func(*authz.ReadBudget) (rego.Input, error)
		cause, frame string
	}{
		{"a text", "evaluation", "", quoting, "a value of type string, not shown", "sidecar_test.quoting"},
		{"an error", "evaluation", "", wrongAnswer, "a value of type *errors.errorString, not shown", "sidecar_test.wrongAnswer"},
		{"the runtime", "evaluation", "", outOfRange, "index out of range", "sidecar_test.outOfRange"},
		{"an end", "notification", ending, quoting, "a value of type string, not shown", "sidecar_test.quoting"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, out := newMeter(), &logtest.Buffer{}
			s, _ := deciding(t, policy("", allowIf("input.x")), func(config *sidecar.Config) {
				config.Meters, config.Logger = m, slog.New(slog.NewTextHandler(out, nil))
			})
			r := request("GET", nil)
			if c.operation != "" {
				r = lease(c.operation, time.Hour)
			}
			r.ID, r.Source = "the-id", c.source
			s.Check(t.Context(), r)
			log := out.String()
			for _, want := range []string{"level=ERROR", c.cause, c.frame, "panics_test.go:", "decision_id=the-id", "place=" + c.place, "rule=main"} {
				if !strings.Contains(log, want) {
					t.Errorf("the log has no %q:\n%s", want, log)
				}
			}
			if strings.Contains(log, secret) {
				t.Errorf("the log quotes the request:\n%s", log)
			}
			if n := m.count(t, "understudy.panics", label("place", c.place)); n != 1 {
				t.Errorf("%d panics are counted, want 1", n)
			}
		})
	}
}

// brokenContext makes the compiler panic, as a policy that it cannot stand would.
type brokenContext struct{ context.Context }

func (brokenContext) Err() error { panic("broken") }

// TestAPanicOfTheCompilerLeavesATrace: anyone who compiled has the error, and reports it.
func TestAPanicOfTheCompilerLeavesATrace(t *testing.T) {
	large := policy("", allowIf("true"))
	large.Modules["large.rego"] = "package large\n# " + strings.Repeat("x", 100<<10) // in the background
	for name, p := range map[string]struct{ large bool }{"small": {false}, "large": {true}} {
		source := policy("", allowIf("true"))
		if p.large {
			source = large
		}
		var err error
		background.Run(proto.Size(source), func() { _, err = authz.Compile(brokenContext{t.Context()}, source) })
		m, out := newMeter(), &logtest.Buffer{}
		panics, newErr := diagnostics.NewPanics(slog.New(slog.NewTextHandler(out, nil)), m)
		if newErr != nil {
			t.Fatal(newErr)
		}
		panics.ReportCompiler(t.Context(), err, slog.String("resource", "p"))
		panics.ReportCompiler(t.Context(), errors.New("another error"))
		if log := out.String(); !strings.Contains(log, "brokenContext.Err") || strings.Count(log, "\n") != 1 {
			t.Errorf("%s: the log is\n%s", name, log)
		}
		if n := m.count(t, "understudy.panics", label("place", "compilation")); n != 1 {
			t.Errorf("%s: %d panics are counted, want 1", name, n)
		}
	}
}

// TestPanicsDoNotFloodTheLog sends a request that panics again and again, at one moment of a clock
// that moves only while everyone waits: the log is bounded for each minute.
func TestPanicsDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, out := newMeter(), &logtest.Buffer{}
		s, _ := deciding(t, policy("", allowIf("input.x")), func(config *sidecar.Config) {
			config.Meters, config.Logger = m, slog.New(slog.NewTextHandler(out, nil))
		})
		for range 100 {
			r := request("GET", nil)
			r.Source = quoting
			s.Check(t.Context(), r)
		}
		if n := strings.Count(out.String(), "a panic was caught"); n == 0 || n > 10 {
			t.Errorf("%d lines for 100 panics, want a few", n)
		}
		if n := m.count(t, "understudy.panics", label("place", "evaluation")); n != 100 {
			t.Errorf("%d panics are counted, want 100", n)
		}
	})
}

package sidecar_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"understudy/authz"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// TestUnknownPoliciesAreToldOf asks for policies that do not exist, on a clock that
// moves only while everyone waits.
func TestUnknownPoliciesAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, stop := startLogging(t, &log)
		defer stop()
		ask := func(id string) {
			r := request("GET", nil)
			r.Policy = authz.PolicyID(id)
			if d := s.Check(t.Context(), r); d.Effect != authz.Allow || !d.Default {
				t.Errorf("%q: got %+v; want the default decision", id, d)
			}
		}
		for range 1000 {
			ask("gone")
		}
		ask("web") // it exists
		ask("line\nbreak\x1b[31m" + strings.Repeat("x", 1<<16))
		text := warnings(&log)
		if strings.Count(text, "no such policy") != 2 || strings.Count(text, "policy=gone decision=ALLOW") != 1 {
			t.Errorf("each unknown policy is to be logged once:\n%.2000s", text)
		}
		if strings.ContainsAny(text, "\x1b") || strings.Count(text, "\n") != 2 || len(text) > 1<<13 {
			t.Errorf("the ID in the log is not clean or not bounded: %.2000q", text)
		}
		time.Sleep(time.Minute)
		ask("gone")
		if text := warnings(&log); strings.Count(text, "policy=gone") != 1 {
			t.Errorf("after a minute it is to be logged again, got:\n%s", text)
		}
	})
}

func TestManyUnknownPoliciesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, stop := startLogging(t, &log)
		defer stop()
		for range 2 {
			for i := range 10_000 {
				r := request("GET", nil)
				r.Policy = authz.PolicyID(fmt.Sprintf("id-%d", i))
				s.Check(t.Context(), r)
			}
			text := warnings(&log)
			if got := strings.Count(text, "no such policy"); got != 100 {
				t.Errorf("%d IDs are logged, want 100", got)
			}
			if got := strings.Count(text, "many policies that do not exist"); got != 1 {
				t.Errorf("that there are too many is logged %d times, want once", got)
			}
			time.Sleep(time.Minute)
		}
	})
}

// startLogging runs a sidecar with the policy web whose default is to allow. It is
// to be stopped within the test.
func startLogging(t *testing.T, log *bytes.Buffer) (*sidecar.Sidecar, func()) {
	t.Helper()
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", "")})
	s, err := sidecar.New(sidecar.Config{
		Feed: feed, Scope: authz.Scope{Location: location}, Policy: "web", Node: "n1", Default: authz.Allow,
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	testkit.Closed(t, "s is ready", s.Ready())
	synctest.Wait()
	return s, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// warnings returns what was logged since the last call.
func warnings(log *bytes.Buffer) string {
	defer log.Reset()
	return log.String()
}

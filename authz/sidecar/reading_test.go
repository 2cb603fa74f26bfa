package sidecar_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
	"understudy/rego"
)

// taking is a request whose body takes memory; then reads is called, if it is not nil.
func taking(bytes int64, reads func()) *authz.Request {
	r := request("GET", nil)
	source := r.Source
	r.Source = func(reading *authz.ReadBudget) (rego.Input, error) {
		if err := reading.Take(bytes); err != nil {
			return rego.Input{}, err
		}
		if reads != nil {
			reads()
		}
		return source(reading)
	}
	return r
}

// TestBodyMemory: while one body is read, another one for which there is no room is
// denied; when it has been decided, there is room again.
func TestBodyMemory(t *testing.T) {
	t.Parallel()
	m := newMeter()
	s, _ := deciding(t, policy("", allowIf(onlyGET)), func(c *sidecar.Config) { c.Meters, c.BodyMemory = m, 1000 })
	begun, release, first := make(chan struct{}), make(chan struct{}), make(chan authz.Decision, 1)
	go func() { first <- s.Check(context.Background(), taking(700, func() { close(begun); <-release })) }()
	testkit.Closed(t, "the reading to begin", begun)
	if got := m.gauge(t, "understudy.body.memory"); got != 700 {
		t.Errorf("%d bytes are taken, want 700", got)
	}
	if d := s.Check(t.Context(), taking(400, nil)); d.Failure != authz.FailureOverloaded || d.Effect != authz.Deny {
		t.Errorf("without room: %+v, want OVERLOADED", d)
	}
	if d := s.Check(t.Context(), taking(300, nil)); d.Effect != authz.Allow {
		t.Errorf("with room: %+v, want an allow", d)
	}
	if d := s.Check(t.Context(), taking(1001, nil)); d.Failure != authz.FailureRequest || d.HTTPStatus != 400 {
		t.Errorf("a body for which there never is room: %+v, want BAD_REQUEST", d)
	}
	close(release)
	if d := testkit.Receive(t, "the first request to end", first); d.Effect != authz.Allow {
		t.Errorf("the first: %+v, want an allow", d)
	}
	if d := s.Check(t.Context(), taking(1000, nil)); d.Effect != authz.Allow {
		t.Errorf("afterwards: %+v, want an allow", d)
	}
	if got := m.gauge(t, "understudy.body.memory"); got != 0 {
		t.Errorf("%d bytes are taken at the end", got)
	}
	if n := m.count(t, "understudy.checks", label("failure", "OVERLOADED")); n != 1 {
		t.Errorf("%d checks are counted as OVERLOADED, want 1", n)
	}
}

// TestReadingEndsWithTheDecision: when there is no more time, nothing more is read.
func TestReadingEndsWithTheDecision(t *testing.T) {
	t.Parallel()
	s, _ := deciding(t, policy("", allowIf(onlyGET)), nil)
	past, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if d := s.Check(past, taking(1, func() { t.Error("the body is read") })); d.Failure != authz.FailureDeadline {
		t.Errorf("past the deadline: %+v, want DEADLINE_EXCEEDED", d)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if d := s.Check(left, taking(1, func() { t.Error("the body is read") })); d.Failure != authz.FailureCanceled {
		t.Errorf("of a caller that left: %+v, want CANCELLED", d)
	}
}

// TestExperimentsLeaveRoomForBodies: of requests that were not sent as bytes, what is read off
// the request path takes half of the memory at most. What finds no room is not compared, and
// counted.
func TestExperimentsLeaveRoomForBodies(t *testing.T) {
	t.Parallel()
	m, feed, rec := newMeter(), newFeed(), newRecording()
	feed.put(webName, authz.PolicyState{
		Policy: policy("", allowIf(onlyGET)),
		Experiments: []*adminpb.PolicyExperiment{
			experiment("method", "m", allowIf(onlyGET)), experiment("whole", "w", allowIf("count(input) > 0")),
		},
	})
	s, stop := startWith(t, feed, rec, func(c *sidecar.Config) { c.Meters, c.BodyMemory = m, 1000 })
	testkit.Closed(t, "s is ready", s.Ready())
	for _, bytes := range []int64{600, 400} {
		r := taking(bytes, nil)
		r.Parts = asked(nil).parts
		if d := s.Check(t.Context(), r); d.Effect != authz.Allow {
			t.Errorf("%+v, want an allow: the live policy does not read the body", d)
		}
	}
	stop()
	whole := 0
	for _, r := range rec.await(t, 2) {
		if r.attributes["understudy.experiment.etag"] == "w" {
			whole++
		}
	}
	if n := m.count(t, "understudy.preview.dropped", label("reason", "body_memory")); n != 2 || whole != 1 {
		t.Errorf("%d comparisons are counted as dropped, %d were made; want those of one request, and one", n, whole)
	}
	if got := m.gauge(t, "understudy.body.memory"); got != 0 {
		t.Errorf("%d bytes are taken at the end", got)
	}
}

// TestTheDecisionLogGoesOnWithoutTheBody: an event has the rest of a request whose body
// does not parse, or takes too much, and says that it is missing.
func TestTheDecisionLogGoesOnWithoutTheBody(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]func(*authz.ReadBudget) (rego.Input, error){
		"does not parse": func(*authz.ReadBudget) (rego.Input, error) {
			return rego.Input{}, &authz.BadRequest{Reason: "The body is not JSON."}
		},
		"takes too much": func(reading *authz.ReadBudget) (rego.Input, error) {
			return rego.Input{}, reading.Take(600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			feed, log := newFeed(), newRecording()
			feed.put(webName, authz.PolicyState{Policy: policy("", allowIf(onlyGET))})
			s, stop := startWith(t, feed, newRecording(), func(c *sidecar.Config) {
				c.BodyMemory, c.DecisionLog.Provider = 1000, recordingProvider(log)
			})
			testkit.Closed(t, "s is ready", s.Ready())
			r := request("GET", nil)
			r.Parts, r.Source = asked(nil).parts, source
			r.WithoutBody = func(*authz.ReadBudget, bool) (rego.Input, error) {
				return rego.NewInput(map[string]any{"method": "GET"})
			}
			if d := s.Check(t.Context(), r); d.Effect != authz.Allow {
				t.Errorf("%+v, want an allow: the policy does not read the body", d)
			}
			stop()
			var event struct {
				Input  map[string]any
				Erased []string
			}
			if err := json.Unmarshal([]byte(log.await(t, 1)[0].body), &event); err != nil {
				t.Fatal(err)
			}
			if event.Input["method"] != "GET" || !slices.Contains(event.Erased, "/input/parsed_body") {
				t.Errorf("the event is %+v", event)
			}
		})
	}
}

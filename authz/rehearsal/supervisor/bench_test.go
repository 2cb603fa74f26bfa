package supervisor_test

import (
	"context"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
	"understudy/rego"
	"understudy/rego/explain"
)

// BenchmarkCrossing is what a decision costs that another process makes, of a policy that
// reads one header, with as many under way as a lane has; and what it costs here.
func BenchmarkCrossing(b *testing.B) {
	p := policy(`input.attributes.request.http.headers["x-user"] == "alice"`)
	document := map[string]any{"attributes": map[string]any{"request": map[string]any{"http": map[string]any{"headers": map[string]any{"x-user": "alice"}}}}}
	in, err := rego.NewInput(document)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("here", func(b *testing.B) { here(b, p, in) })
	b.Run("there", func(b *testing.B) {
		s, _, _ := start(b)
		c := ready(b, s.NewRemotePolicy(p, supervisor.Options{Name: "a", Queue: 1 << 30}))
		inFlight(b, func(done func()) error {
			return c.Decide(supervisor.DecisionRequest{
				Prepare: func() (wire.DecisionRequest, bool) {
					encoded, err := rego.AppendInput(nil, in)
					if err != nil {
						panic(err)
					}
					return wire.DecisionRequest{ID: "id", Time: time.Unix(1, 0), Timeout: time.Hour, Asked: wire.Document{Facts: wire.Facts{Operation: authz.OperationCheck}, Input: encoded}}, true
				},
				Done: func(authz.Decision, error) { done() },
			})
		})
	})
}

// inFlight measures a request, with as many under way as a lane has.
func inFlight(b *testing.B, ask func(done func()) error) {
	done := make(chan struct{}, 32)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i >= cap(done) {
			<-done
		}
		if err := ask(func() { done <- struct{}{} }); err != nil {
			b.Fatal(err)
		}
	}
	for range min(b.N, cap(done)) {
		<-done
	}
}

// BenchmarkTrace is what one side of an explanation costs: the same request, asked with a
// trace, with as many under way.
func BenchmarkTrace(b *testing.B) {
	s, _, _ := start(b)
	c := ready(b, s.NewRemotePolicy(policy(`input.x == "alice"`), supervisor.Options{Name: "a", Queue: 1 << 30}))
	inFlight(b, func(done func()) error {
		return c.Trace("envoy/authz/allow", false, supervisor.Examination{Prepare: aboutX("alice", time.Hour)}, func(explain.Trace, error) { done() })
	})
}

// BenchmarkShow is what it costs to find out what a request shows of one literal: the same request, evaluated
// twice on each side.
func BenchmarkShow(b *testing.B) {
	s, _, _ := start(b)
	c := ready(b, s.NewRemotePolicy(policy(`input.x == "alice"`), supervisor.Options{Name: "a", Queue: 1 << 30}))
	about := supervisor.Pending(items(b, c, policy(`input.x == "bob"`)).Digest, []byte{1})
	inFlight(b, func(done func()) error {
		return c.Show(func() []byte { return about }, supervisor.Examination{Prepare: aboutX("alice", time.Hour)}, func(wire.Shown, error) { done() })
	})
}

func here(b *testing.B, p *adminpb.Policy, in rego.Input) {
	compiled, err := authz.Compile(b.Context(), p)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
		r := &authz.Request{ID: "id", Operation: authz.OperationCheck, Time: time.Unix(1, 0)}
		r.Source = func(*authz.ReadBudget) (rego.Input, error) { return in, nil }
		if d := compiled.Decide(ctx, r, authz.Conditions{Shadow: true}); d.Effect != authz.Allow {
			b.Fatal(d)
		}
		cancel()
	}
}

// BenchmarkStart is the time until a process that is started has compiled a policy.
func BenchmarkStart(b *testing.B) {
	p := policy(`input.x == "yes"`)
	for b.Loop() {
		s, _, _ := start(b)
		if err := s.Compile(b.Context(), p); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

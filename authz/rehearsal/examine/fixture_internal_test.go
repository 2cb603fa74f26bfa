package examine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/diagnostics"
	"understudy/authz/diagnostics/metrictest"
	"understudy/authz/rehearsal/decisionrequest"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/rehearsal/supervisor"
	"understudy/rego"
)

// leafOf is the leaf of a request by an experiment that has learned all of its document.
func leafOf(r *authz.Request) authz.Leaf {
	input, err := r.Source(nil)
	if err != nil {
		panic(err)
	}
	b, err := rego.AppendInput(nil, input)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(b)
	return authz.Leaf{binary.BigEndian.Uint64(sum[:]), 1}
}

// examined is an examiner with a live policy and one experiment.
type examined struct {
	*Examiner
	process   *supervisor.Supervisor
	live      *decisionrequest.Live
	candidate *Candidate
	pair      *Pair
	sampled   Sampled
	reader    metrictest.Metrics
	log       *bytes.Buffer
}

// examining compiles both policies.
func examining(t testing.TB, process *supervisor.Supervisor, live, candidate *adminpb.Policy) *examined {
	t.Helper()
	reader, out := metrictest.New(), &bytes.Buffer{}
	x, err := New(Config{
		Live: decisionrequest.NewLivePolicies(process, 0), Requests: decisionrequest.Maker{Timeout: time.Hour, Bodies: authz.NewBodyMemory(0)},
		Output: diagnostics.Output{
			Logger: slog.New(slog.NewTextHandler(out, nil)), Meters: reader.Provider,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := authz.Compile(t.Context(), live)
	if err != nil {
		t.Fatal(err)
	}
	e := &examined{Examiner: x, process: process, pair: &Pair{}, reader: reader, log: out}
	e.live = &decisionrequest.Live{Name: "policies/web", Etag: "1", Policy: cache.NewPolicy(compiled), Source: rehearsaltest.Packed(t, live)}
	if err := e.live.Policy.SetSize(100); err != nil {
		t.Fatal(err)
	}
	e.candidate = &Candidate{
		Source: candidate, Exempted: authz.NewExemptions(candidate), Remote: process.NewRemotePolicy(candidate, supervisor.Options{Name: "next", Keeps: true}),
	}
	t.Cleanup(e.candidate.Remote.Close)
	if err := e.candidate.Remote.Compiled(); err != nil {
		t.Fatal(err)
	}
	return e
}

// subject is a request that the live policy has decided, and of whose document the experiment has learned all.
func (e *examined) subject(t testing.TB, request *authz.Request) *Subject {
	d := e.live.Policy.Decide(t.Context(), request, authz.Conditions{})
	return &Subject{
		Request: request, Bytes: 100, Live: e.live, Decision: d, Leaf: leafOf(request), Candidate: e.candidate, Experiment: "policies/web/experiments/next",
	}
}

// send has requests examined, one after the other.
func (e *examined) send(t testing.TB, documents ...map[string]any) {
	t.Helper()
	for _, document := range documents {
		e.Examine(*e.subject(t, rehearsaltest.Request(document, time.Unix(1_700_000_000, 0))), e.pair, Group{})
		e.Wait()
	}
}

package sidecar

import (
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/rego"
)

// nobody is a Feed that is never asked.
type nobody struct{ authz.Feed }

// holding is a sidecar that follows nothing and holds one policy, with a cache.
func holding(t *testing.T, policy *adminpb.Policy) (*Sidecar, *entry, *sdkmetric.ManualReader) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	s, err := New(Config{
		Feed: nobody{}, Scope: authz.Scope{Location: "projects/p1/locations/l1"}, Node: "n",
		Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), Experiments: Experiments{Rehearsal: supervisortest.New(t)},
	})
	if err != nil {
		t.Fatal(err)
	}
	next := s.with(t.Context(), &snapshot{}, authz.Update{Policies: map[authz.PolicyName]authz.PolicyState{web: state(policy)}})
	s.resizeCaches(next)
	s.current.Store(next)
	return s, next.policies[web], reader
}

// documentRequest is a request whose input is a document.
func documentRequest(document map[string]any, now time.Time) *authz.Request {
	return &authz.Request{
		ID: "id", Operation: authz.OperationCheck, Time: now,
		Source: func(*authz.ReadBudget) (rego.Input, error) { return rego.NewInput(document) },
	}
}

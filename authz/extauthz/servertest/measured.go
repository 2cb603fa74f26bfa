package servertest

import (
	"context"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	adminpb "understudy/admin/v1"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/sidecar"
)

// Measured is a server that decides by a running sidecar, with its metrics.
type Measured struct {
	*extauthz.Server
	reader *sdkmetric.ManualReader
}

// Measure returns a server that decides by one module, with an experiment for each further one.
func Measure(t testing.TB, module string, experiments ...string) Measured {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	const location = authz.Location("projects/default/locations/test")
	name := location.Policy("web")
	state := authz.PolicyState{Policy: Policy(module)}
	for i, e := range experiments {
		state.Experiments = append(state.Experiments, &adminpb.PolicyExperiment{
			Name: string(name) + "/experiments/e" + string(rune('a'+i)), Etag: "e", Policy: Policy(e),
		})
	}
	meters, err := extauthz.WithMeters(provider)
	if err != nil {
		t.Fatal(err)
	}
	sidecar := Run(t, sidecar.Config{
		Location: location, Node: "test", Policy: "web", Meters: provider,
		Feed: PolicySet{Cursor: authz.Cursor{Sequence: 1, Nonce: "n"}, Policies: map[authz.PolicyName]authz.PolicyState{name: state}},
	})
	return Measured{New(t, sidecar, meters), reader}
}

// Policy is a policy of one module that asks the usual rule.
func Policy(module string) *adminpb.Policy {
	return &adminpb.Policy{
		Modules: map[string]string{"policy.rego": module},
		Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
	}
}

// Count returns a counter: the sum of its series that have a label of this value.
func (m Measured) Count(t testing.TB, name, label, value string) (n int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, found := range scope.Metrics {
			data, ok := found.Data.(metricdata.Sum[int64])
			if !ok || found.Name != name {
				continue
			}
			for _, p := range data.DataPoints {
				if v, ok := p.Attributes.Value(attribute.Key(label)); ok && v.AsString() == value {
					n += p.Value
				}
			}
		}
	}
	return n
}

// Hits returns how many live decisions came out of the cache.
func (m Measured) Hits(t testing.TB) int64 {
	t.Helper()
	return m.Count(t, "understudy.decision_cache.lookups", "outcome", "hit")
}

// OnlyGET reads the method alone.
const OnlyGET = "package envoy.authz\n\ndefault allow := false\n\nallow if input.attributes.request.http.method == \"GET\"\n"

// OnlyPOST reads the method alone, and Amounts the body.
const (
	OnlyPOST = "package envoy.authz\n\ndefault allow := false\n\nallow if input.attributes.request.http.method == \"POST\"\n"
	Amounts  = "package envoy.authz\n\ndefault allow := true\n\nallow := false if input.parsed_body.amount > 100\n"
)

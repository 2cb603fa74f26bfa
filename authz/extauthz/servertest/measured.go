package servertest

import (
	"testing"

	adminpb "understudy/admin/v1"

	"go.opentelemetry.io/otel/attribute"
	"understudy/authz"
	"understudy/authz/diagnostics/metrictest"
	"understudy/authz/extauthz"
	"understudy/authz/sidecar"
)

// Measured is a server that decides by a running sidecar, with its metrics. So a test
// can say by which way a check went: from the cache, by the lazy decoder, by a full
// decode.
type Measured struct {
	*extauthz.Server
	metrictest.Metrics
}

// Measure returns a server that decides by one module, with an experiment for each further one.
func Measure(t testing.TB, module string, experiments ...string) Measured {
	t.Helper()
	metrics := metrictest.New()
	const location = authz.Location("projects/default/locations/test")
	name := location.Policy("web")
	state := authz.PolicyState{Policy: Policy(module)}
	for i, e := range experiments {
		state.Experiments = append(state.Experiments, &adminpb.PolicyExperiment{
			Name: string(name) + "/experiments/e" + string(rune('a'+i)), Etag: "e", Policy: Policy(e),
		})
	}
	meters, err := extauthz.WithMeters(metrics.Provider)
	if err != nil {
		t.Fatal(err)
	}
	sidecar := Run(t, sidecar.Config{
		Scope: authz.Scope{Location: location}, Node: "test", Policy: "web", Meters: metrics.Provider,
		Feed: PolicySet{Cursor: authz.Cursor{Sequence: 1, Nonce: "n"}, Policies: map[authz.PolicyName]authz.PolicyState{name: state}},
	})
	return Measured{New(t, sidecar, meters), metrics}
}

// Policy is a policy of one module with the default path.
func Policy(module string) *adminpb.Policy {
	return &adminpb.Policy{
		Modules: map[string]string{"policy.rego": module},
		Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
	}
}

// Hits returns how many live decisions came out of the cache.
func (m Measured) Hits(t testing.TB) int64 {
	t.Helper()
	return m.Count(t, "understudy.decision_cache.lookups", attribute.String("outcome", "hit"))
}

// OnlyGET reads the method alone.
const OnlyGET = "package envoy.authz\n\ndefault allow := false\n\nallow if input.attributes.request.http.method == \"GET\"\n"

// OnlyPOST reads the method alone, and Amounts the body.
const (
	OnlyPOST = "package envoy.authz\n\ndefault allow := false\n\nallow if input.attributes.request.http.method == \"POST\"\n"
	Amounts  = "package envoy.authz\n\ndefault allow := true\n\nallow := false if input.parsed_body.amount > 100\n"
)

// ClaimsAndMore reads what policies mostly do: the request line, a header, a claim that
// Envoy has verified.
const ClaimsAndMore = `package envoy.authz

default allow := false

allow if {
	input.attributes.request.http.method in {"GET", "POST"}
	input.parsed_path[0] == "input"
	not input.attributes.request.http.headers["x-blocked"]
}

allow if "admin" in input.attributes.metadataContext.filterMetadata["envoy.filters.http.jwt_authn"].payload.roles
`

package extauthz_test

import (
	"context"
	"fmt"
	"testing"

	sdklog "go.opentelemetry.io/otel/sdk/log"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/extauthz/servertest"
	"understudy/authz/rehearsal"
	"understudy/authz/sidecar"
)

// BenchmarkPreview is what BenchmarkWire is for prefix, and all that experiments add to
// it up to the record, which a processor of the SDK drops: the difference divided by
// their number is what one experiment costs.
func BenchmarkPreview(b *testing.B) {
	for _, experiments := range []int{1, 10} {
		recorded := make(dropping, experiments)
		provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(recorded), sdklog.WithAllowKeyDuplication())
		const location = authz.Location("projects/default/locations/test")
		name := location.Policy("prefix")
		s := servertest.New(b, servertest.Run(b, sidecar.Config{
			Scope: authz.Scope{Location: location}, Node: "test", Experiments: sidecar.Experiments{Recorder: rehearsal.NewRecorder(provider, rehearsal.PreviewLog{})},
			Feed: servertest.PolicySet{
				Cursor:   authz.Cursor{Sequence: 1, Nonce: "n"},
				Policies: map[authz.PolicyName]authz.PolicyState{name: rehearsed(string(name), experiments)},
			},
		}))
		same, fresh := wires(b, "prefix", "/api/orders/%08d?expand=items")
		for kind, next := range map[string]func(int) []byte{"same": func(int) []byte { return same }, "new": fresh} {
			b.Run(fmt.Sprintf("%d/%s", experiments, kind), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, err := s.CheckWire(context.Background(), next(i)); err != nil {
						b.Fatal(err)
					}
					for range experiments {
						<-recorded
					}
				}
			})
		}
	}
}

// rehearsed is a policy with a number of experiments, each with another prefix.
func rehearsed(name string, experiments int) authz.PolicyState {
	state := authz.PolicyState{Policy: prefixPolicy("/api/")}
	for i := range experiments {
		state.Experiments = append(state.Experiments, &adminpb.PolicyExperiment{
			Name: fmt.Sprintf("%s/experiments/e%d", name, i), Etag: fmt.Sprint(i), Policy: prefixPolicy(fmt.Sprintf("/api/orders/%d", i)),
		})
	}
	return state
}

func prefixPolicy(prefix string) *adminpb.Policy {
	return &adminpb.Policy{
		Modules: map[string]string{"policy.rego": fmt.Sprintf(`package envoy.authz

default allow := false

allow if {
	input.attributes.request.http.method == "GET"
	startswith(input.attributes.request.http.path, %q)
}
`, prefix)},
		Rules: []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
	}
}

// dropping is a processor that only counts records.
type dropping chan struct{}

func (dropping) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

func (d dropping) OnEmit(context.Context, *sdklog.Record) error {
	d <- struct{}{}
	return nil
}
func (dropping) Shutdown(context.Context) error   { return nil }
func (dropping) ForceFlush(context.Context) error { return nil }

package extauthz_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/extauthz"
)

// measured is a server that decides by a running sidecar, with its metrics.
type measured struct {
	*extauthz.Server
	reader *sdkmetric.ManualReader
}

// newMeasured decides by one module, with an experiment for each further one.
func newMeasured(t testing.TB, module string, experiments ...string) measured {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	const location = authz.Location("projects/default/locations/test")
	name := location.Policy("web")
	state := authz.PolicyState{Policy: regoPolicy(module)}
	for i, e := range experiments {
		state.Experiments = append(state.Experiments, &adminpb.PolicyExperiment{
			Name: string(name) + "/experiments/e" + string(rune('a'+i)), Etag: "e", Policy: regoPolicy(e),
		})
	}
	meters, err := extauthz.WithMeters(provider)
	if err != nil {
		t.Fatal(err)
	}
	sidecar := runSidecar(t, authz.Config{
		Location: location, Node: "test", Policy: "web", Meters: provider,
		Feed: policySet{Cursor: authz.Cursor{Sequence: 1, Nonce: "n"}, Policies: map[authz.PolicyName]authz.PolicyState{name: state}},
	})
	return measured{newServer(t, sidecar, meters), reader}
}

// regoPolicy is a policy of one module that asks the usual rule.
func regoPolicy(module string) *adminpb.Policy {
	return &adminpb.Policy{
		Modules: map[string]string{"policy.rego": module},
		Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
	}
}

// count returns a counter: the sum of its series that have a label of this value.
func (m measured) count(t testing.TB, name, label, value string) (n int64) {
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

// hits returns how many live decisions came out of the cache.
func (m measured) hits(t testing.TB) int64 {
	t.Helper()
	return m.count(t, "understudy.decisions.remembered", "outcome", "hit")
}

// onlyGET reads the method alone.
const onlyGET = "package envoy.authz\n\ndefault allow := false\n\nallow if input.attributes.request.http.method == \"GET\"\n"

// TestUnknownSizeIsRead: a size that is not known is -1, which has the longest form that
// a number has on the wire.
func TestUnknownSizeIsRead(t *testing.T) {
	request := istioRequest()
	request.Attributes.Request.Http.Size = -1
	content, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	if why := extauthz.Declined(content); why != "" {
		t.Fatalf("declined: %s", why)
	}
	holdsView(t, content, someReads(t))
	m := newMeasured(t, onlyGET)
	for range 3 {
		if _, err := m.CheckWire(context.Background(), content); err != nil {
			t.Fatal(err)
		}
	}
	if hits := m.hits(t); hits != 2 {
		t.Errorf("%d of 3 equal requests were hits of the decision cache, want 2", hits)
	}
}

// TestFullDecodesAreCounted: whoever wonders why a check costs so much finds the reason
// in a metric.
func TestFullDecodesAreCounted(t *testing.T) {
	const path, method = 4, 2
	for want, content := range map[string]string{
		"empty":           "",
		"wire":            "\xff",
		"utf8":            oddHTTP(in(path, "/\xff")),
		"unknown_field":   oddHTTP(in(99, "x")),
		"raw_headers":     oddHTTP(in(13, in(1, in(1, "a"), in(2, "b")))),
		"unusual_message": in(1, in(11, in(99, "x"))),
		"path_or_query":   oddHTTP(in(path, "/%zz")),
		"repeated_message": in(1,
			in(1, in(1, in(1, num(3, 1)))),
			in(1, in(1, in(1, num(3, 2))))),
	} {
		t.Run(want, func(t *testing.T) {
			m := newMeasured(t, onlyGET)
			if _, err := m.CheckWire(context.Background(), []byte(content)); err != nil {
				t.Fatal(err)
			}
			if got := extauthz.Declined([]byte(content)); got != want {
				t.Errorf("declined for %q, want %q", got, want)
			}
			if n := m.count(t, "understudy.full_decodes", "reason", want); n != 1 {
				t.Errorf("%d full decodes are counted for it, want 1", n)
			}
		})
	}
	whole := newMeasured(t, "package envoy.authz\n\nallow if count(input) > 3\n")
	if _, err := whole.CheckWire(context.Background(), []byte(oddHTTP(in(method, "GET")))); err != nil {
		t.Fatal(err)
	}
	if n := whole.count(t, "understudy.full_decodes", "reason", "whole_input"); n != 1 {
		t.Errorf("a policy that reads its whole input: %d full decodes are counted, want 1", n)
	}
}

// TestHTTPDecisionsAreCached: what is asked over HTTP is read as lazily as what Envoy
// sends over gRPC, and its decisions are cached like those.
func TestHTTPDecisionsAreCached(t *testing.T) {
	for name, raw := range map[string]string{
		"envoy":   "GET /envoy/a HTTP/1.1\r\nHost: a\r\n\r\n",
		"body":    "POST /envoy/a HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		"forward": "GET /forward-auth HTTP/1.1\r\nHost: u\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /a\r\nX-Forwarded-Host: a\r\nX-Forwarded-Proto: https\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n",
		"nginx":   "GET /nginx-auth HTTP/1.1\r\nHost: u\r\nX-Original-Method: GET\r\nX-Original-URL: https://a/a\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeasured(t, onlyGET)
			front := listenHTTP(t, m.Server, extauthz.HTTPConfig{PathPrefix: "/envoy"})
			want := http.StatusOK
			if strings.HasPrefix(raw, "POST") {
				want = http.StatusForbidden
			}
			for range 50 {
				if got := sendRaw(t, front, []byte(raw)).code; got != want {
					t.Fatalf("status %d, want %d", got, want)
				}
			}
			if hits := m.hits(t); hits != 49 {
				t.Errorf("%d of 50 equal requests were hits of the decision cache, want 49", hits)
			}
		})
	}
}

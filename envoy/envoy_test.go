// Package envoy_test checks the Envoy configuration against Envoy's own protos.
package envoy_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	streamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	extauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/formatter/req_without_query/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// load decodes envoy.yaml strictly: a field that Envoy does not know is an error,
// also inside every Any.
func load(t *testing.T) *bootstrapv3.Bootstrap {
	t.Helper()
	content, err := os.ReadFile("envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, content)
}

// loadAlternative decodes envoy.yaml for another deployment, "tls" or "socket", as it
// asks its reader to change it.
func loadAlternative(t *testing.T, mark string) *bootstrapv3.Bootstrap {
	t.Helper()
	content, err := os.ReadFile("envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(content, []byte("#"+mark+"| ")) {
		t.Fatalf("envoy.yaml has no line with the mark #%s|", mark)
	}
	content = bytes.ReplaceAll(content, []byte("#"+mark+"| "), nil)
	return decode(t, regexp.MustCompile("(?m)^.* # not with a "+mark+"\n").ReplaceAll(content, nil))
}

func decode(t *testing.T, content []byte) *bootstrapv3.Bootstrap {
	t.Helper()
	var document any
	if err := yaml.Unmarshal(content, &document); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	bootstrap := &bootstrapv3.Bootstrap{}
	if err := protojson.Unmarshal(text, bootstrap); err != nil {
		t.Fatal(err)
	}
	return bootstrap
}

// everyMessage visits a message and all messages in it, through every Any.
func everyMessage(t *testing.T, m protoreflect.Message, visit func(proto.Message)) {
	t.Helper()
	visit(m.Interface())
	if packed, ok := m.Interface().(*anypb.Any); ok {
		inner, err := packed.UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		everyMessage(t, inner.ProtoReflect(), visit)
		return
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				everyMessage(t, v.Message(), visit)
				return true
			})
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				everyMessage(t, v.List().Get(i).Message(), visit)
			}
		case f.Message() != nil && !f.IsMap():
			everyMessage(t, v.Message(), visit)
		}
		return true
	})
}

func TestEnvoyAcceptsTheFile(t *testing.T) { validate(t, load(t)) }

func TestEnvoyAcceptsTheAlternatives(t *testing.T) {
	for _, mark := range []string{"tls", "socket"} {
		bootstrap := loadAlternative(t, mark)
		validate(t, bootstrap)
		verified, sockets, addresses := 0, 0, 0
		for _, c := range bootstrap.GetStaticResources().GetClusters() {
			if c.GetName() != "understudy" {
				continue
			}
			everyMessage(t, c.ProtoReflect(), func(m proto.Message) {
				switch m := m.(type) {
				case *tlsv3.UpstreamTlsContext:
					if verifies(m.GetCommonTlsContext()) {
						verified++
					}
				case *corev3.Pipe:
					sockets++
				case *corev3.SocketAddress:
					addresses++
				}
			})
		}
		if got, want := []int{verified, sockets, addresses}, map[string][]int{"tls": {1, 0, 1}, "socket": {0, 1, 0}}[mark]; !slices.Equal(got, want) {
			t.Errorf("%s: contexts that verify, sockets and addresses are %v; want %v", mark, got, want)
		}
	}
}

// verifies reports whether a context verifies whom it asks, and has a certificate of
// its own that is read again.
func verifies(c *tlsv3.CommonTlsContext) bool {
	own := c.GetTlsCertificateSdsSecretConfigs()
	return c.GetValidationContext().GetTrustedCa() != nil && len(c.GetValidationContext().GetMatchTypedSubjectAltNames()) > 0 &&
		len(own) == 1 && own[0].GetSdsConfig().GetPathConfigSource() != nil && slices.Equal(c.GetAlpnProtocols(), []string{"h2"})
}

func validate(t *testing.T, bootstrap *bootstrapv3.Bootstrap) {
	t.Helper()
	validated := 0
	everyMessage(t, bootstrap.ProtoReflect(), func(m proto.Message) {
		if v, ok := m.(interface{ ValidateAll() error }); ok {
			validated++
			if err := v.ValidateAll(); err != nil {
				t.Errorf("%s: %v", m.ProtoReflect().Descriptor().FullName(), err)
			}
		}
	})
	if validated < 20 {
		t.Errorf("only %d messages were validated; the walk misses some", validated)
	}
}

// filters returns the parts of the file that the tests ask about: the ext_authz
// filter and the routes.
func filters(t *testing.T, bootstrap *bootstrapv3.Bootstrap) (*extauthzv3.ExtAuthz, []*routev3.Route) {
	t.Helper()
	var filters []*extauthzv3.ExtAuthz
	var routes []*routev3.Route
	everyMessage(t, bootstrap.ProtoReflect(), func(m proto.Message) {
		switch m := m.(type) {
		case *extauthzv3.ExtAuthz:
			filters = append(filters, m)
		case *routev3.Route:
			routes = append(routes, m)
		}
	})
	if len(filters) != 1 || len(routes) == 0 {
		t.Fatalf("there are %d ext_authz filters and %d routes; want one filter and some routes", len(filters), len(routes))
	}
	return filters[0], routes
}

func TestNoRequestPassesUnchecked(t *testing.T) {
	filter, routes := filters(t, load(t))
	if filter.GetFailureModeAllow() {
		t.Error("failure_mode_allow lets requests pass while Understudy is away")
	}
	if code := filter.GetStatusOnError().GetCode(); code != typev3.StatusCode_ServiceUnavailable {
		t.Errorf("status_on_error is %v; want ServiceUnavailable", code)
	}
	if filter.GetClearRouteCache() {
		t.Error("clear_route_cache lets a request end on a route whose policy was not asked")
	}
	if filter.GetFilterEnabled() != nil || filter.GetFilterEnabledMetadata() != nil {
		t.Error("the filter is not asked about every request")
	}
	if body := filter.GetWithRequestBody(); body.GetMaxRequestBytes() == 0 || !body.GetPackAsBytes() {
		t.Errorf("with_request_body is {%v}; want a limit, and bytes", body)
	}
	for _, r := range routes {
		if settings := perRoute(t, r); settings.GetDisabled() && r.GetMatch().GetPath() != "/healthz" {
			t.Errorf("ext_authz is disabled on the route {%v}; only the path /healthz may do without", r.GetMatch())
		}
	}
}

func TestRoutesChoosePolicies(t *testing.T) {
	_, routes := filters(t, load(t))
	chosen := make(map[string]string) // :: prefix → policy ID
	for _, r := range routes {
		if policy, ok := perRoute(t, r).GetCheckSettings().GetContextExtensions()["policy"]; ok {
			chosen[r.GetMatch().GetPrefix()] = policy
		}
	}
	if want := map[string]string{"/billing/": "billing", "/uploads/": "uploads"}; !maps.Equal(chosen, want) {
		t.Errorf("policies are chosen for %v; want %v", chosen, want)
	}
}

// perRoute is what a route says to the ext_authz filter; empty if it says nothing.
func perRoute(t *testing.T, r *routev3.Route) *extauthzv3.ExtAuthzPerRoute {
	t.Helper()
	settings := &extauthzv3.ExtAuthzPerRoute{}
	for name, packed := range r.GetTypedPerFilterConfig() {
		if name != "envoy.filters.http.ext_authz" {
			t.Errorf("a route speaks to the filter %q, which is not there", name)
			continue
		}
		if err := packed.UnmarshalTo(settings); err != nil {
			t.Fatal(err)
		}
	}
	return settings
}

func TestClustersAreThere(t *testing.T) {
	bootstrap := load(t)
	filter, routes := filters(t, bootstrap)
	there := make(map[string]bool)
	for _, c := range bootstrap.GetStaticResources().GetClusters() {
		there[c.GetName()] = true
		if named := c.GetLoadAssignment().GetClusterName(); named != c.GetName() {
			t.Errorf("the endpoints of cluster %q are called %q", c.GetName(), named)
		}
	}
	asked := filter.GetGrpcService().GetEnvoyGrpc().GetClusterName()
	if asked != "understudy" || !there[asked] {
		t.Errorf("the filter asks cluster %q; want understudy, and that it is there", asked)
	}
	for _, r := range routes {
		if c := r.GetRoute().GetCluster(); !there[c] {
			t.Errorf("a route leads to cluster %q, which is not there", c)
		}
	}
}

func TestAdminPageIsLocal(t *testing.T) {
	if address := load(t).GetAdmin().GetAddress().GetSocketAddress().GetAddress(); address != "127.0.0.1" {
		t.Errorf("Envoy's admin page listens on %q; whoever reaches it rules Envoy", address)
	}
}

func TestUnderstudyIsReachedOverHTTP2(t *testing.T) {
	for _, c := range load(t).GetStaticResources().GetClusters() {
		if c.GetName() != "understudy" {
			continue
		}
		address := c.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetSocketAddress()
		if address.GetPortValue() != 9191 {
			t.Errorf("the port is %d; serve listens on 9191", address.GetPortValue())
		}
		options := &upstreamhttpv3.HttpProtocolOptions{}
		packed := c.GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]
		if err := packed.UnmarshalTo(options); err != nil {
			t.Fatal(err)
		}
		if options.GetExplicitHttpConfig().GetHttp2ProtocolOptions() == nil {
			t.Error("gRPC needs HTTP/2")
		}
		if len(c.GetHealthChecks()) != 1 || c.GetHealthChecks()[0].GetGrpcHealthCheck() == nil {
			t.Error("a sidecar that is not ready would get requests: there is no gRPC health check")
		}
		if threshold := c.GetCommonLbConfig().GetHealthyPanicThreshold(); threshold == nil || threshold.GetValue() != 0 {
			t.Error("a sidecar that is not ready would get requests when none is: healthy_panic_threshold is not 0")
		}
		if len(c.GetCircuitBreakers().GetThresholds()) == 0 || options.GetExplicitHttpConfig().GetHttp2ProtocolOptions().GetConnectionKeepalive() == nil {
			t.Error("the cluster has no circuit breakers or no keepalive")
		}
		return
	}
	t.Error("there is no cluster called understudy")
}

// TestTheAccessLogHasTheDecision: its operators name the filter's metadata, and no
// query is in it.
func TestTheAccessLogHasTheDecision(t *testing.T) {
	var logs []*streamv3.StdoutAccessLog
	everyMessage(t, load(t).ProtoReflect(), func(m proto.Message) {
		if m, ok := m.(*streamv3.StdoutAccessLog); ok {
			logs = append(logs, m)
		}
	})
	if len(logs) != 1 {
		t.Fatalf("there are %d access logs; want one", len(logs))
	}
	fields := logs[0].GetLogFormat().GetJsonFormat().AsMap()
	for _, key := range []string{"decision_id", "failure", "reason"} {
		if want := "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:" + key + ")%"; fields[key] != want {
			t.Errorf("%s is %v; want %s", key, fields[key], want)
		}
	}
	for key, value := range fields {
		if strings.Contains(value.(string), "REQ(") && value != "%REQ(:METHOD)%" && value != "%REQ(X-REQUEST-ID)%" {
			t.Errorf("%s is %v, which may hold secrets", key, value)
		}
	}
}

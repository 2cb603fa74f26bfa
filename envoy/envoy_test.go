// Package envoy_test checks the Envoy configuration against Envoy's own protos.
package envoy_test

import (
	"encoding/json"
	"os"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	extauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
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

func TestEnvoyAcceptsTheFile(t *testing.T) {
	validated := 0
	everyMessage(t, load(t).ProtoReflect(), func(m proto.Message) {
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

func TestRequestsAreAuthorized(t *testing.T) {
	bootstrap := load(t)
	clusters := make(map[string]bool)
	for _, c := range bootstrap.GetStaticResources().GetClusters() {
		clusters[c.GetName()] = true
	}
	var filters, managers, routes int
	everyMessage(t, bootstrap.ProtoReflect(), func(m proto.Message) {
		switch m := m.(type) {
		case *extauthzv3.ExtAuthz:
			filters++
			if m.GetFailureModeAllow() {
				t.Error("failure_mode_allow lets requests pass while Understudy is away")
			}
			if c := m.GetGrpcService().GetEnvoyGrpc().GetClusterName(); !clusters[c] {
				t.Errorf("the filter asks cluster %q, which is not there", c)
			}
		case *hcmv3.HttpConnectionManager:
			managers++
			for _, h := range m.GetRouteConfig().GetVirtualHosts() {
				for _, r := range h.GetRoutes() {
					routes++
					if c := r.GetRoute().GetCluster(); !clusters[c] {
						t.Errorf("a route leads to cluster %q, which is not there", c)
					}
				}
			}
		}
	})
	if filters != 1 || managers != 1 || routes < 3 {
		t.Errorf("%d ext_authz filters, %d connection managers, %d routes; want 1, 1 and at least 3", filters, managers, routes)
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
		return
	}
	t.Error("there is no cluster called understudy")
}

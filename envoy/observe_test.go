package envoy_test

import (
	"os"
	"testing"

	extauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
)

// TestTheObserverIsAskedFirstAndRefusesNobody: the file watches with one filter and
// enforces with the other.
func TestTheObserverIsAskedFirstAndRefusesNobody(t *testing.T) {
	content, err := os.ReadFile("observe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	bootstrap := decode(t, content)
	validate(t, bootstrap)
	var filters []*extauthzv3.ExtAuthz
	everyMessage(t, bootstrap.ProtoReflect(), func(m proto.Message) {
		manager, ok := m.(*hcmv3.HttpConnectionManager)
		if !ok {
			return
		}
		for _, f := range manager.GetHttpFilters() {
			if filter := (&extauthzv3.ExtAuthz{}); f.GetTypedConfig().MessageIs(filter) {
				if err := f.GetTypedConfig().UnmarshalTo(filter); err != nil {
					t.Fatal(err)
				}
				filters = append(filters, filter)
			}
		}
	})
	if len(filters) != 2 {
		t.Fatalf("there are %d ext_authz filters; want one that watches and one that enforces", len(filters))
	}
	watching, enforcing := filters[0], filters[1]
	if watching.GetGrpcService().GetEnvoyGrpc().GetClusterName() != "understudy" || !watching.GetFailureModeAllow() ||
		!watching.GetWithRequestBody().GetAllowPartialMessage() || watching.GetClearRouteCache() {
		t.Errorf("the observer may refuse or lead somebody elsewhere: {%v}", watching)
	}
	if enforcing.GetFailureModeAllow() || !proto.Equal(enforcing.GetWithRequestBody(), watching.GetWithRequestBody()) {
		t.Errorf("what enforces lets pass, or does not see the same body: {%v}", enforcing)
	}
}

package envoy_test

import (
	"os"
	"slices"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	extauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

func loadHTTPService(t *testing.T) *bootstrapv3.Bootstrap {
	t.Helper()
	content, err := os.ReadFile("http_service.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, content)
}

func TestEnvoyAcceptsTheHTTPService(t *testing.T) { validate(t, loadHTTPService(t)) }

// TestTheHTTPServiceAsksUnderAPrefix: without one a client could choose a form by
// its path, and what is not listed would go to the client.
func TestTheHTTPServiceAsksUnderAPrefix(t *testing.T) {
	filter, routes := filters(t, loadHTTPService(t))
	services := []*extauthzv3.HttpService{filter.GetHttpService()}
	for _, r := range routes {
		if own := perRoute(t, r).GetCheckSettings().GetHttpService(); own != nil {
			services = append(services, own)
		}
	}
	var prefixes []string
	for _, s := range services {
		prefixes = append(prefixes, s.GetPathPrefix())
		if said := s.GetAuthorizationResponse(); said.GetAllowedClientHeaders() == nil || said.GetAllowedUpstreamHeaders() == nil {
			t.Errorf("%s: what goes where is not listed", s.GetPathPrefix())
		}
		if s.GetServerUri().GetCluster() != "understudy" {
			t.Errorf("%s: the cluster %q is asked", s.GetPathPrefix(), s.GetServerUri().GetCluster())
		}
	}
	if want := []string{"/envoy", "/envoy@billing"}; !slices.Equal(prefixes, want) {
		t.Errorf("the prefixes are %v; want %v", prefixes, want)
	}
	if filter.GetFailureModeAllow() || filter.GetStatusOnError().GetCode() != typev3.StatusCode_ServiceUnavailable || filter.GetClearRouteCache() {
		t.Error("somebody passes unasked")
	}
}

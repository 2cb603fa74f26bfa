package authz

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	adminpb "understudy/admin/v1"
)

// FuzzEndpoint: where an endpoint is accepted, its calls go to its host and port and to
// the paths of the calls, with nothing of it sent elsewhere.
func FuzzEndpoint(f *testing.F) {
	for _, seed := range []string{
		"https://usage.example.com", "http://a:80/", "http://[::1]:8080/base", "https://a/../..", "https://a/%2e%2e/%2F", "https://a/b//c",
		"https://a\\@b", "https://a@b", "https://a#@b", "https://a?b", "http:a", "//a", "https://a:0", "https://a%00", "https://[fe80::1%25eth0]", "HTTPS://A.",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rule := &adminpb.PolicyRule{Filter: &adminpb.PolicyRule_ExternalService{
			ExternalService: &adminpb.ExternalServiceFilter{EndpointUrl: text},
		}}
		if text == "" || len(externalProblems("f", rule)) > 0 {
			return
		}
		for operation, to := range newExternalFilter(nil, rule).(externalFilter).endpoints {
			given, sent := parseURL(t, text), parseURL(t, to.text)
			if sent.Host != given.Host || sent.Scheme != given.Scheme || sent.User != nil || sent.RawQuery != "" || sent.Fragment != "" ||
				!strings.HasSuffix(sent.Path, "/v1/"+calledFor[operation]) || sent.String() != to.url.String() {
				t.Errorf("%q is called at %q, as %+v", text, to.text, to)
			}
			if _, err := http.NewRequest(http.MethodPost, to.text, nil); err != nil {
				t.Errorf("%q is accepted, but cannot be called: %v", text, err)
			}
		}
	})
}

func parseURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

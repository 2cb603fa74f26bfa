package deploy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"understudy/authz/extauthz/httpauthz"

	"go.yaml.in/yaml/v3"

	"understudy/authz"
	"understudy/authz/extauthz"
)

// recorder is a Decider that allows and records the requests.
type recorder struct{ request *authz.Request }

func (a *recorder) Check(_ context.Context, r *authz.Request) authz.Decision {
	a.request = r
	return authz.Decision{Effect: authz.Allow, Plain: true}
}

// askAt sends a question to Understudy's HTTP port and holds it against what a
// client of the proxy asked for: GET https://shop.example/cart?x=1.
func askAt(t *testing.T, target string, header http.Header) {
	t.Helper()
	decider := &recorder{}
	handler, err := httpauthz.New(extauthz.New(decider), httpauthz.Config{PathPrefix: "/envoy"})
	if err != nil {
		t.Fatal(err)
	}
	question := httptest.NewRequestWithContext(t.Context(), "GET", target, nil)
	question.RequestURI = strings.TrimPrefix(target, "http://understudy:9193")
	question.Header = header
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, question)
	r := decider.request
	if answer.Code != 200 || r == nil {
		t.Fatalf("%s is answered with %d %s", target, answer.Code, answer.Body)
	}
	if r.Method != "GET" || r.Path != "/cart" || r.Host != "shop.example" || r.Policy != "shop" {
		t.Errorf("%s %s%s was decided by %q", r.Method, r.Host, r.Path, r.Policy)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// forged is what a client may send in the hope that it is believed.
func forged() http.Header {
	out := http.Header{}
	for _, name := range []string{
		"X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-For",
		"X-Original-Method", "X-Original-Url", "X-Original-Uri",
	} {
		out.Set(name, "/forged")
	}
	return out
}

// forwardedHeaders are those that Traefik, as configured, and Caddy set by
// themselves.
func forwardedHeaders() http.Header {
	out := forged()
	for name, value := range map[string]string{
		"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/cart?x=1", "X-Forwarded-Host": "shop.example",
		"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1",
	} {
		out.Set(name, value)
	}
	return out
}

func TestTraefikAsks(t *testing.T) {
	var file struct {
		HTTP struct {
			Middlewares map[string]struct {
				ForwardAuth struct {
					Address             string   `yaml:"address"`
					TrustForwardHeader  *bool    `yaml:"trustForwardHeader"`
					AuthResponseHeaders []string `yaml:"authResponseHeaders"`
				} `yaml:"forwardAuth"`
			} `yaml:"middlewares"`
			Routers map[string]struct {
				Rule, Service string
				Middlewares   []string
			} `yaml:"routers"`
			Services map[string]any `yaml:"services"`
		} `yaml:"http"`
	}
	decoder := yaml.NewDecoder(strings.NewReader(readFile(t, "forward-auth/traefik.yaml")))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	for name, router := range file.HTTP.Routers {
		if len(router.Middlewares) != 1 || file.HTTP.Services[router.Service] == nil {
			t.Errorf("the router %s does not ask first, or leads nowhere", name)
			continue
		}
		auth := file.HTTP.Middlewares[router.Middlewares[0]].ForwardAuth
		if auth.TrustForwardHeader == nil || *auth.TrustForwardHeader {
			t.Error("Traefik believes its client's X-Forwarded headers")
		}
		askAt(t, auth.Address, forwardedHeaders())
	}
}

var caddySettings = regexp.MustCompile(`(?m)^\s*(rewrite|header_up \S+) (.*)$`)

// TestCaddyAsks sends what Caddy would: the headers of its reverse_proxy, and those that
// the file adds.
func TestCaddyAsks(t *testing.T) {
	header, target := forwardedHeaders(), ""
	header.Set("X-Forwarded-Method", "/forged")
	header.Set("X-Forwarded-Uri", "/forged")
	variables := strings.NewReplacer("{method}", "GET", "{uri}", "/cart?x=1")
	for _, m := range caddySettings.FindAllStringSubmatch(readFile(t, "forward-auth/Caddyfile"), -1) {
		if name, ok := strings.CutPrefix(m[1], "header_up "); ok {
			header.Set(name, variables.Replace(m[2]))
		} else {
			target = m[2]
		}
	}
	// Caddy appends the query of its client.
	askAt(t, "http://understudy:9193"+target+"?policy=forged", header)
}

var (
	nginxLocation = regexp.MustCompile(`(?s)location = /_understudy \{(.*?)\n    \}`)
	nginxSetting  = regexp.MustCompile(`(?m)^\s*(proxy_set_header \S+|proxy_pass|proxy_pass_request_body) (.*);$`)
)

// TestNginxAsks sends what nginx would, which takes what it does not set from its
// client.
func TestNginxAsks(t *testing.T) {
	location := nginxLocation.FindString(readFile(t, "forward-auth/nginx.conf"))
	variables := strings.NewReplacer(`"`, "", "$request_method", "GET", "$scheme", "https", "$host", "shop.example",
		"$request_uri", "/cart?x=1", "$remote_addr", "192.0.2.1")
	header, target, internal := forged(), "", strings.Contains(location, "internal;")
	for _, m := range nginxSetting.FindAllStringSubmatch(location, -1) {
		value := variables.Replace(m[2])
		name, isHeader := strings.CutPrefix(m[1], "proxy_set_header ")
		switch {
		case isHeader && value == "":
			header.Del(name)
		case isHeader:
			header.Set(name, value)
		case m[1] == "proxy_pass":
			u, err := url.Parse(value)
			if err != nil {
				t.Fatal(err)
			}
			target = u.Path
		}
	}
	if !internal {
		t.Error("clients may ask by themselves: the location is not internal")
	}
	askAt(t, "http://understudy:9193"+target, header)
}

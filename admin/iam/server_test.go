package iam_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"understudy/admin"
	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/boltstore"
	"understudy/admin/iam"
	"understudy/admin/redisstore"
	"understudy/admin/rest"
	"understudy/admin/storetest"
	"understudy/authz"
)

// owner is who may everything on every server here.
const owner = "token:root"

// stores is what both stores implement.
type stores interface {
	admin.Store
	authz.Feed
	Close() error
}

// onBothStores runs a test on each store, in a project of its own.
func onBothStores(t *testing.T, run func(t *testing.T, store stores)) {
	t.Helper()
	url := storetest.Redis(t)
	t.Run("redis", func(t *testing.T) {
		store, err := redisstore.Open(url)
		run(t, closed(t, store, err))
	})
	t.Run("bolt", func(t *testing.T) { run(t, newStore(t)) })
}

// newStore opens a file of its own.
func newStore(t testing.TB) stores {
	t.Helper()
	store, err := boltstore.Open(filepath.Join(t.TempDir(), "understudy.db"))
	return closed(t, store, err)
}

func closed[S stores](t testing.TB, store S, err error) S {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// tokens is an authenticator whose tokens are the members that they stand for, with
// groups of the issuer https://idp behind commas, or whole ones.
type tokens struct{}

// Authenticate implements access.Authenticator.
func (tokens) Authenticate(r *http.Request) (access.Principal, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return access.Principal{}, apierror.Unauthenticated("The request has no credentials.")
	}
	who := strings.Split(token, ",")
	p := access.Principal{Member: who[0], Method: access.MethodToken}
	for _, group := range who[1:] {
		if !strings.Contains(group, "#") {
			group = access.Group{Issuer: "https://idp", Name: group}.String()
		}
		p.Groups = append(p.Groups, group)
	}
	return p, nil
}

// server is the API on a store, over real HTTP.
type server struct {
	testing.TB
	// p, l and policy are the names of a project, a location and a policy that is there.
	p, l, policy string
	store        admin.Store
	services     *admin.Server
	*httptest.Server
}

// serve serves the API on a store, with who owns it, or without authentication if nobody
// does.
func serve(t testing.TB, store admin.Store, owners ...string) *server {
	t.Helper()
	s := &server{TB: t, store: store, p: "projects/" + projectOf(t)}
	s.l = s.p + "/locations/l1"
	s.policy = s.l + "/policies/web"
	var authorizer access.Authorizer
	if len(owners) > 0 {
		var err error
		if authorizer, err = iam.NewAuthorizer(iam.AuthorizerConfig{Store: store, Owners: owners}); err != nil {
			t.Fatal(err)
		}
	}
	s.listen(authorizer)
	return s
}

// projectOf is a project of the test's own.
func projectOf(t testing.TB) string {
	return "p-" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))[max(0, len(t.Name())-50):]
}

// listen starts the server.
func (s *server) listen(authorizer access.Authorizer) {
	s.Helper()
	var err error
	if s.services, err = admin.NewServer(admin.Config{Store: s.store, Authorizer: authorizer}); err != nil {
		s.Fatal(err)
	}
	mixin, err := iam.New(iam.Config{Admin: s.services, Authorizer: authorizer})
	if err != nil {
		s.Fatal(err)
	}
	config := rest.Config{Services: s.services, IAM: mixin}
	if authorizer != nil {
		config.Authenticator, config.Authorizer = tokens{}, authorizer
	}
	handler, err := rest.New(config)
	if err != nil {
		s.Fatal(err)
	}
	s.Server = httptest.NewUnstartedServer(handler)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	s.Cleanup(s.Close)
}

// answer is what a call returned.
type answer struct {
	status int
	header http.Header
	body   string
	// value is the body as JSON.
	value map[string]any
}

// call calls REST as somebody, or as nobody.
func (s *server) call(who, method, path, body string) answer {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.URL+"/v1/"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		s.Fatal(err)
	}
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	a := answer{status: response.StatusCode, header: response.Header, body: string(text)}
	_ = json.Unmarshal(text, &a.value)
	return a
}

// must is call that has to succeed.
func (s *server) must(who, method, path, body string) answer {
	s.Helper()
	a := s.call(who, method, path, body)
	if a.status != http.StatusOK {
		s.Fatalf("%s: %s %s: got %d %s, want 200", who, method, path, a.status, a.body)
	}
	return a
}

// want is call that has to answer with an HTTP status.
func (s *server) want(status int, who, method, path, body string) answer {
	s.Helper()
	a := s.call(who, method, path, body)
	if a.status != status {
		s.Errorf("%s: %s %s: got %d %s, want %d", who, method, path, a.status, a.body, status)
	}
	return a
}

// content is that of a policy that allows GET.
const content = `{"rules":[{"ruleId":"main","rego":{}}],"modules":{"authz.rego":"package envoy.authz\ndefault allow := false\nallow if input.attributes.request.http.method == \"GET\""}}`

// createPolicy creates the policy web as the owner.
func (s *server) createPolicy() {
	s.Helper()
	s.must(owner, "POST", s.l+"/policies?policyId=web", content)
}

// bind gives a role on a resource to members, and takes all others away.
func (s *server) bind(resource, role string, members ...string) {
	s.Helper()
	s.setBindings(resource, map[string][]string{role: members})
}

// setBindings replaces the bindings of a resource :: role → members.
func (s *server) setBindings(resource string, byRole map[string][]string) {
	s.Helper()
	type binding struct {
		Role    string   `json:"role"`
		Members []string `json:"members"`
	}
	bindings := []binding{}
	for role, members := range byRole {
		bindings = append(bindings, binding{"roles/understudy." + role, members})
	}
	text, err := json.Marshal(map[string]any{"policy": map[string]any{"bindings": bindings}})
	if err != nil {
		s.Fatal(err)
	}
	s.must(owner, "POST", resource+":setIamPolicy", string(text))
}

// dial returns a connection of gRPC on which somebody calls, or nobody.
func (s *server) dial(who string) *grpc.ClientConn {
	s.Helper()
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if who != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(who)))
	}
	conn, err := grpc.NewClient(strings.TrimPrefix(s.URL, "http://"), options...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = conn.Close() })
	return conn
}

// bearer sends a token with each call.
type bearer string

var _ credentials.PerRPCCredentials = bearer("")

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (bearer) RequireTransportSecurity() bool { return false }

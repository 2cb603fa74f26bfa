package admin_test

import (
	"net/http"
	"strings"
	"time"

	"understudy/admin"
	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/iam"
	"understudy/admin/rest"
)

func init() { rows["B-100"] = denialsAreAlike }

// members is the authenticator of rows: the header says who calls.
type members struct{}

// Authenticate implements access.Authenticator.
func (members) Authenticate(r *http.Request) (access.Principal, error) {
	member := r.Header.Get(memberHeader)
	if member == "" {
		return access.Principal{}, apierror.Unauthenticated("The request has no credentials.")
	}
	return access.Principal{Member: member, Method: access.MethodToken}, nil
}

// checkCallers runs `guard OWNER`: from here on the server asks who calls, and checks every
// call. Bindings are set by the owner.
func (r *row) checkCallers(owner string) {
	r.owner = owner
	r.servers[r.via] = r.serve(r.store)
}

// edge makes the API of a row's server.
func (r *row) edge(store admin.Store) http.Handler {
	config := admin.Config{Store: store, Now: r.clock.now, Logger: r.logs.logger()}
	if r.script.has("peer") { // whose nodes apply a change before it is waited for, or after
		config.OperationWait = 50 * time.Millisecond
	}
	var authorizer access.Authorizer
	if r.owner != "" {
		a, err := iam.NewAuthorizer(iam.AuthorizerConfig{Store: store, Owners: []string{r.owner}, Logger: r.logs.logger()})
		if err != nil {
			r.Fatal(err)
		}
		config.Authorizer, authorizer = a, a
	}
	server, err := admin.NewServer(config)
	if err != nil {
		r.Fatal(err)
	}
	mixin, err := iam.New(iam.Config{Admin: server, Authorizer: authorizer, Logger: r.logs.logger()})
	if err != nil {
		r.Fatal(err)
	}
	services := rest.Config{Services: server, IAM: mixin, Logger: r.logs.logger()}
	if authorizer != nil {
		services.Authenticator, services.Authorizer = members{}, authorizer
	}
	handler, err := rest.New(services)
	if err != nil {
		r.Fatal(err)
	}
	return handler
}

// denialsAreAlike compares the 403 of a policy that is there with those of one that is not,
// of one that cannot be, and of bodies that are none. admin/iam has all methods and roles.
func denialsAreAlike(r *row) {
	broken, empty := `{"displayName":`, `{}`
	there := r.send("DELETE", r.path("$POL"), nil)
	for target, body := range map[string]*string{
		r.path("$POL"): nil, r.path("$POL") + "?etag=x&nothing=1": nil, r.path("$L") + "/policies/none": nil, r.path("$L") + "/policies/a%20b": nil,
		r.path("$POL") + "?allowMissing=true": &broken, r.path("$POL") + "?force": &empty,
	} {
		got := r.send("DELETE", target, body)
		name, _, _ := strings.Cut(strings.TrimPrefix(target, "/v1/"), "?")
		name = strings.ReplaceAll(name, "%20", " ")
		if want := strings.ReplaceAll(there.body, r.path("$pol"), name); got.status != http.StatusForbidden || got.body != want {
			r.Errorf("DELETE %s: got %d %s, want 403 %s", target, got.status, got.body, want)
		}
	}
}

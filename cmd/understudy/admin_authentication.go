package main

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"understudy/admin/access"
	"understudy/admin/authentication"
	"understudy/admin/authentication/browser"
	"understudy/admin/authentication/oidc"
	"understudy/admin/authentication/tokens"
	"understudy/admin/rest"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/port"
	"understudy/cmd/understudy/tokenfile"
)

// adminAuthentication is how the admin API knows who asks. Client certificates are beside
// it, in adminTLS.
type adminAuthentication struct {
	// allowUnauthenticatedAdmin lets the API listen beyond this machine without any
	// authentication: whoever reaches it can change every policy, so something in front
	// has to authenticate.
	allowUnauthenticatedAdmin bool
	// adminTokenFiles have the digests of tokens.
	adminTokenFiles []string
	// oidcIssuer is the URL of the issuer whose tokens are taken; empty is none.
	oidcIssuer string
	// oidcAudiences are those of which a token has to have one.
	oidcAudiences []string
	// oidcGroupsClaim is the claim of a token with the groups of its principal.
	oidcGroupsClaim string
	// oidcCA is a PEM file with the authorities of the issuer's certificate; empty means
	// those of the system.
	oidcCA string
	// oidcClientID is what this server is to the issuer, for logins in a browser; empty means
	// that a browser's user pastes a token.
	oidcClientID string
	// oidcClientSecret is a file with the client's secret; empty for a public client.
	oidcClientSecret string
	// oidcScopes are what a login asks for beside openid.
	oidcScopes []string
	// adminURL is where browsers reach the admin port; empty means the Host that they ask.
	adminURL string
	// adminTLSInFront says that a proxy in front of the API speaks TLS.
	adminTLSInFront bool
}

// bind declares the flags.
func (c *adminAuthentication) bind(f *pflag.FlagSet) {
	f.BoolVar(&c.allowUnauthenticatedAdmin, "allow-unauthenticated-admin", false, "let the admin API listen beyond this machine without authentication: whoever reaches it may do everything")
	f.StringSliceVar(&c.adminTokenFiles, "admin-token-file", nil, "a file with a line NAME and SHA-256 for each token that the admin API takes, as 'understudy token NAME' prints it; it is read again when it changes")
	f.StringVar(&c.oidcIssuer, "admin-oidc-issuer", "", "the URL of an OpenID Connect issuer whose tokens the admin API takes")
	f.StringSliceVar(&c.oidcAudiences, "admin-oidc-audience", nil, "an audience that a token has to be for; given more than once, it is for one of them")
	f.StringVar(&c.oidcGroupsClaim, "admin-oidc-groups-claim", "groups", "the claim of a token with the groups of its principal")
	f.StringVar(&c.oidcCA, "admin-oidc-ca-file", "", "a PEM file with the authorities of the issuer's certificate (default those of the system)")
	f.StringVar(&c.oidcClientID, "admin-oidc-client-id", "", "the client that this server is to the issuer: with it, browsers log in there (authorization code with PKCE); its redirect URL is --admin-url with /ui/callback")
	f.StringVar(&c.oidcClientSecret, "admin-oidc-client-secret-file", "", "a file with the secret of the client, read at each login (default none: a public client)")
	f.StringSliceVar(&c.oidcScopes, "admin-oidc-scope", nil, "a scope that a browser's login asks for beside openid, such as groups")
	f.StringVar(&c.adminURL, "admin-url", "", "where browsers reach the admin port, such as https://understudy.example.com (default by the name that they ask)")
	f.BoolVar(&c.adminTLSInFront, "admin-tls-in-front", false, "a proxy in front of the admin API speaks TLS: tokens may then come here without it, beyond this machine too")
}

// tokens reports whether bearer tokens are taken.
func (c *adminAuthentication) tokens() bool { return len(c.adminTokenFiles) > 0 || c.oidcIssuer != "" }

// check calls check with each rule and whether it is kept.
func (c *adminAuthentication) check(check rule) {
	u, err := url.Parse(c.adminURL)
	check(c.adminURL == "" || err == nil && command.OneOf(u.Scheme, "https", "http") && u.Host != "" && strings.Trim(u.Path, "/") == "" && u.RawQuery == "",
		"admin-url", "it is a URL without a path, such as https://understudy.example.com")
	check(c.oidcClientID != "" || c.oidcClientSecret == "", "admin-oidc-client-secret-file", "it comes with --admin-oidc-client-id")
	check(c.oidcClientID != "" || len(c.oidcScopes) == 0, "admin-oidc-scope", "it comes with --admin-oidc-client-id")
	if c.oidcIssuer == "" {
		check(len(c.oidcAudiences) == 0, "admin-oidc-audience", "it comes with --admin-oidc-issuer")
		check(c.oidcCA == "", "admin-oidc-ca-file", "it comes with --admin-oidc-issuer")
		check(c.oidcClientID == "", "admin-oidc-client-id", "it comes with --admin-oidc-issuer")
		return
	}
	if err := oidc.CheckURL(c.oidcIssuer); err != nil {
		check(false, "admin-oidc-issuer", err.Error())
	}
	check(len(c.audiences()) > 0, "admin-oidc-audience", "a token of the issuer may be for anyone: name the audience of those that are for this server")
}

// audiences are those of which a token has to have one. A login's token is for the client.
func (c *adminAuthentication) audiences() []string {
	if c.oidcClientID == "" {
		return c.oidcAudiences
	}
	return append(slices.Clone(c.oidcAudiences), c.oidcClientID)
}

// checkAdmin checks where the admin API listens: beyond this machine somebody has to know
// who asks, and no token may cross the network as it is.
func (c *config) checkAdmin(check rule) {
	known := c.tokens() || c.adminTLS.ClientCA != "" || c.signatures()
	check(!known || !c.allowUnauthenticatedAdmin, "allow-unauthenticated-admin", "nobody is unauthenticated where client certificates, tokens or signatures are asked for: leave it out")
	check(known || len(c.owners) == 0, "admin-owner", "nobody is known without authentication: add --admin-token-file, --admin-oidc-issuer, --admin-tls-client-ca or --chef-key")
	if !c.enabled("admin") || loopback(c.adminAddr) {
		return
	}
	check(known || c.allowUnauthenticatedAdmin, "admin-addr",
		"without authentication the admin API listens on a loopback address; beyond it, add --admin-token-file, --admin-oidc-issuer, --admin-tls-client-ca or --chef-key, "+
			"or behind a proxy that authenticates its callers --allow-unauthenticated-admin")
	check(!c.tokens() || c.adminTLS.Given() || c.adminTLSInFront, "admin-tls-cert",
		"tokens would cross the network readable by others: name a certificate, or add --admin-tls-in-front if a proxy before this speaks TLS")
}

// openAuthentication reads the files and makes the authenticator with the logins of
// browsers, both nil if nothing is configured.
func (s *server) openAuthentication(guard rest.Guard) (err error) {
	if s.config.allowUnauthenticatedAdmin && !loopback(s.config.adminAddr) {
		s.log.Warn("whoever reaches the admin API may do everything: it has no authentication (--allow-unauthenticated-admin)", "addr", s.config.adminAddr)
	}
	c := authentication.Config{
		Certificates: s.config.adminTLS.ClientCA != "", Signatures: s.config.signatures(), Meters: s.telemetry.Meters,
	}
	if !c.Certificates && !c.Signatures && !s.config.tokens() {
		return nil
	}
	if files := s.config.adminTokenFiles; len(files) > 0 {
		if c.Tokens, err = tokens.Open(files, s.log); err != nil {
			return command.Usage(fmt.Errorf("--admin-token-file: %w", err))
		}
	}
	if s.config.oidcIssuer != "" {
		if c.Issuer, err = s.openIssuer(); err != nil {
			return err
		}
	}
	if s.authentication, err = authentication.New(c); err != nil {
		return err
	}
	s.login, err = s.openLogin(c.Issuer, guard)
	return err
}

// openLogin makes the logins of browsers: at the issuer if this server is a client of it,
// else by pasted tokens alone.
func (s *server) openLogin(issuer *oidc.Issuer, guard rest.Guard) (*browser.Login, error) {
	c := browser.Config{
		Authenticator: s.authentication, Guard: guard, TLSInFront: s.config.adminTLSInFront, Logger: s.log,
		Layout: func(w http.ResponseWriter, r *http.Request, p browser.Page) {
			s.ui.Layout(w, r, p.Status, p.Title, p.Body)
		},
	}
	if s.config.adminURL != "" {
		c.URL, _ = url.Parse(s.config.adminURL) // check has been there before
	}
	if s.config.oidcClientID != "" {
		c.Issuer, c.Client = issuer, oidc.Client{ID: s.config.oidcClientID, Scopes: append([]string{"openid"}, s.config.oidcScopes...)}
	}
	if file := s.config.oidcClientSecret; file != "" {
		c.Client.Secret = func() (string, error) { return tokenfile.Read(file) }
		if _, err := c.Client.Secret(); err != nil {
			return nil, command.Usage(fmt.Errorf("--admin-oidc-client-secret-file: %w", err))
		}
	}
	return browser.New(c)
}

// beside serves who a caller is, and whom the flags name, which are on the admin port beside
// the APIs.
func (s *server) beside(apis http.Handler, authorizer access.Authorizer, guard rest.Guard) (http.Handler, error) {
	members, err := authentication.ServeMembers(authentication.MembersConfig{
		Authenticator: s.authentication, Authorizer: authorizer, Guard: guard, Owners: s.config.owners,
		Project: "projects/" + authz.ResourceName(s.config.Location).Project(),
	})
	if err != nil {
		return nil, err
	}
	paths := map[string]http.Handler{
		authentication.WhoAmIPath:  authentication.ServeWhoAmI(s.authentication, guard),
		authentication.MembersPath: members,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handler, ok := paths[r.URL.Path]; ok {
			handler.ServeHTTP(w, r)
			return
		}
		apis.ServeHTTP(w, r)
	}), nil
}

// openIssuer makes the issuer. It need not be there yet.
func (s *server) openIssuer() (*oidc.Issuer, error) {
	authorities, err := s.config.oidcAuthorities()
	if err != nil {
		return nil, command.Usage(err)
	}
	return oidc.New(oidc.Config{
		URL: s.config.oidcIssuer, Audiences: s.config.audiences(), GroupsClaim: s.config.oidcGroupsClaim,
		Authorities: authorities, Logger: s.log,
	})
}

// oidcAuthorities reads the authorities of the issuer's certificate; nil are those of the
// system.
func (c *adminAuthentication) oidcAuthorities() (*x509.CertPool, error) {
	if c.oidcCA == "" {
		return nil, nil
	}
	content, err := os.ReadFile(c.oidcCA)
	if err != nil {
		return nil, fmt.Errorf("--admin-oidc-ca-file: %w; name a PEM file that this process may read", err)
	}
	pool, err := port.CertPool(content)
	if err != nil {
		return nil, fmt.Errorf("--admin-oidc-ca-file %s: %w; it holds certificates of authorities as PEM", c.oidcCA, err)
	}
	return pool, nil
}

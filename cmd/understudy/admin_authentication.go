package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"understudy/admin/access"
	"understudy/admin/authentication"
	"understudy/admin/authentication/browser"
	"understudy/admin/authentication/oidc"
	"understudy/admin/authentication/revocation"
	"understudy/admin/authentication/tokens"
	"understudy/admin/rest"
	"understudy/authz"
	"understudy/cmd/understudy/command"
)

// adminAuthentication is how the admin API knows who asks. Client certificates are next to
// it, in adminTLS.
type adminAuthentication struct {
	// allowUnauthenticatedAdmin lets the API listen beyond this machine without any
	// authentication: anyone who reaches it can change every policy, so something in front
	// has to authenticate.
	allowUnauthenticatedAdmin bool
	// adminTokenFiles have the digests of tokens.
	adminTokenFiles []string
	// adminRevokedFile has the principals that are refused; empty if there is none.
	adminRevokedFile string
	// oidcIssuers make tokens that are taken: issuerFlags.
	oidcIssuers []string
	// adminURL is where browsers reach the admin port; empty means the Host that they ask.
	adminURL string
	// adminTLSInFront says that a proxy in front of the API speaks TLS.
	adminTLSInFront bool
}

// bind declares the flags.
func (c *adminAuthentication) bind(f *pflag.FlagSet) {
	f.BoolVar(&c.allowUnauthenticatedAdmin, "allow-unauthenticated-admin", false, "let the admin API listen beyond this machine without authentication: anyone who reaches it may do everything")
	f.StringSliceVar(&c.adminTokenFiles, "admin-token-file", nil, "a file with a line NAME, SHA-256 and, if it expires, the time for each token that the admin API takes, as 'understudy token NAME' prints it; it is read again when it changes")
	f.StringVar(&c.adminRevokedFile, "admin-revoked-file", "", "a file with a member in each line, as bindings name principals and groups, whom the admin API refuses whatever they are, owners and browsers' sessions too; it is read again when it changes")
	f.StringArrayVar(&c.oidcIssuers, "admin-oidc-issuer", nil, issuerHelp)
	f.StringVar(&c.adminURL, "admin-url", "", "where browsers reach the admin port, such as https://understudy.example.com (default by the name that they ask)")
	f.BoolVar(&c.adminTLSInFront, "admin-tls-in-front", false, "a proxy in front of the admin API speaks TLS: tokens may then come here without it, beyond this machine too")
}

// tokens reports whether bearer tokens are taken.
func (c *adminAuthentication) tokens() bool {
	return len(c.adminTokenFiles) > 0 || len(issuerFlags(c.oidcIssuers).each()) > 0
}

// check calls check with each rule and whether it is kept.
func (c *adminAuthentication) check(check rule) {
	u, err := url.Parse(c.adminURL)
	check(c.adminURL == "" || err == nil && command.OneOf(u.Scheme, "https", "http") && u.Host != "" && strings.Trim(u.Path, "/") == "" && u.RawQuery == "",
		"admin-url", "it is a URL without a path, such as https://understudy.example.com")
	issuerFlags(c.oidcIssuers).check(check)
}

// checkAdmin checks where the admin API listens: beyond this machine somebody has to know
// who asks, and no token may cross the network as it is.
func (c *config) checkAdmin(check rule) {
	known := c.tokens() || c.adminTLS.ClientCA != "" || c.signatures()
	check(!known || !c.allowUnauthenticatedAdmin, "allow-unauthenticated-admin", "nobody is unauthenticated where client certificates, tokens or signatures are asked for: leave it out")
	check(known || len(c.owners) == 0, "admin-owner", "nobody is known without authentication: add --admin-token-file, --admin-oidc-issuer, --admin-tls-client-ca or --chef-key")
	check(known || c.adminRevokedFile == "", "admin-revoked-file", "nobody is known without authentication: add --admin-token-file, --admin-oidc-issuer, --admin-tls-client-ca or --chef-key")
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
func (p *adminPort) openAuthentication(guard rest.Guard) (err error) {
	if p.config.allowUnauthenticatedAdmin && !loopback(p.config.adminAddr) {
		p.log.Warn("anyone who reaches the admin API may do everything: it has no authentication (--allow-unauthenticated-admin)", "addr", p.config.adminAddr)
	}
	c := authentication.Config{
		Certificates: p.config.adminTLS.ClientCA != "", Signatures: p.config.signatures(), Meters: p.telemetry.Meters,
	}
	if !c.Certificates && !c.Signatures && !p.config.tokens() {
		return nil
	}
	if files := p.config.adminTokenFiles; len(files) > 0 {
		if c.Tokens, err = tokens.Open(files, p.log); err != nil {
			return command.Usage(fmt.Errorf("--admin-token-file: %w", err))
		}
	}
	if file := p.config.adminRevokedFile; file != "" {
		if p.revoked, err = revocation.Open(file, p.log); err != nil {
			return command.Usage(fmt.Errorf("--admin-revoked-file: %w", err))
		}
		c.Revoked = p.revoked
	}
	if c.Issuers, err = issuerFlags(p.config.oidcIssuers).open(p.log); err != nil {
		return command.Usage(err)
	}
	if p.authentication, err = authentication.New(c); err != nil {
		return err
	}
	p.login, err = p.openLogin(c.Issuers, guard)
	return err
}

// openLogin makes the logins of browsers: at the issuers of which this server is a client, and
// by pasted tokens.
func (p *adminPort) openLogin(issuers oidc.Issuers, guard rest.Guard) (*browser.Login, error) {
	c := browser.Config{
		Authenticator: p.authentication, Issuers: issuers, Guard: guard, TLSInFront: p.config.adminTLSInFront, Logger: p.log,
		Layout: func(w http.ResponseWriter, r *http.Request, page browser.Page) {
			p.ui.Layout(w, r, page.Status, page.Title, page.Body)
		},
	}
	if p.config.adminURL != "" {
		c.URL, _ = url.Parse(p.config.adminURL) // check has been there before
	}
	return browser.New(c)
}

// outer serves who a caller is, and whom the flags name, which are on the admin port next to
// the APIs.
func (p *adminPort) outer(apis http.Handler, authorizer access.Authorizer, guard rest.Guard) (http.Handler, error) {
	members, err := authentication.ServeMembers(authentication.MembersConfig{
		Authenticator: p.authentication, Authorizer: authorizer, Guard: guard, Owners: p.config.owners,
		Project: "projects/" + authz.ResourceName(p.config.Location).Project(),
	})
	if err != nil {
		return nil, err
	}
	paths := map[string]http.Handler{
		authentication.WhoAmIPath:  authentication.ServeWhoAmI(p.authentication, guard),
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

// Package browser gives a page in a browser a session.
//
// The session is a cookie that holds a bearer token, which is verified on each request as
// that of an Authorization header is: it is good on every server, and ends with the token.
// It counts below /ui/ alone. A token is pasted, or comes from the issuer by the
// authorization code flow with PKCE.
package browser

import (
	"errors"
	"html/template"
	"net/http"
	"net/url"

	"understudy/admin/access"
	"understudy/admin/authentication"
	"understudy/admin/rest"
)

// The paths that Login answers.
const (
	LoginPath    = "/ui/login"
	CallbackPath = "/ui/callback"
	LogoutPath   = "/ui/logout"
)

// Page is what a layout puts around.
type Page struct {
	// Status is that of HTTP, Title the title of the page.
	Status int
	Title  string
	// Body is what the page shows: HTML without scripts and styles.
	Body template.HTML
}

// Config is what a login needs.
type Config struct {
	// Authenticator verifies tokens. Required.
	Authenticator *authentication.Authenticator
	// Guard says by which names HTTP may ask.
	Guard rest.Guard
	// URL is where browsers reach the server; nil means the Host that was asked.
	URL *url.URL
	// Layout writes a page, with the page's own style; nil means a plain one. It sets
	// Content-Type and Content-Security-Policy.
	Layout func(w http.ResponseWriter, r *http.Request, p Page)
}

// Login serves the pages by which a browser gets a session, and finds who has one. It is
// safe for concurrent use.
type Login struct{ config Config }

// New returns a login.
func New(c Config) (*Login, error) {
	if c.Authenticator == nil {
		return nil, errors.New("browser: Config.Authenticator is required")
	}
	return &Login{c}, nil
}

// ServeHTTP answers LoginPath, CallbackPath and LogoutPath.
func (l *Login) ServeHTTP(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

// Authenticate implements access.Authenticator for what is below /ui/ alone: it takes the
// session of the request, and without one what the API takes.
func (l *Login) Authenticate(r *http.Request) (access.Principal, error) {
	return l.config.Authenticator.Authenticate(r)
}

// URL is where a browser that asked for a page below /ui/ without a session is sent
// (303 See Other), and comes back from.
func URL(r *http.Request) string {
	return LoginPath + "?" + url.Values{"return": {r.URL.RequestURI()}}.Encode()
}

package ui

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/rest"
	"understudy/authz/diagnostics"
)

// Root is the path of the page. All its addresses begin with it.
const Root = "/ui/"

// Config is what a UI needs.
type Config struct {
	// Services answer what the page asks, if the principal of the context may ask it. Required.
	Services *rest.Client
	// Location is shown first: projects/P/locations/L. Required.
	Location string
	// Authenticator finds who asks. Nil means that nobody is asked: everybody may everything.
	Authenticator access.Authenticator
	// Authorizer says what is offered to whom. Nil means everything.
	Authorizer access.Authorizer
	// Login answers /ui/login, /ui/logout and what is below /ui/callback/. Nil means that there
	// are none, and that who is not known gets 401.
	Login Login
	// Guard says by which names HTTP may ask.
	Guard rest.Guard
	// Panics reports what panics in a request. Required.
	Panics *diagnostics.Panics
	// Logger gets the cause of an answer that refers the user to the log. Required.
	Logger *slog.Logger
}

// Login gives browsers sessions.
type Login interface {
	http.Handler
	// Watch returns a channel that is closed when the session of a request is logged out; nil
	// if it has none. leave is called when nobody waits for that any more.
	Watch(r *http.Request) (ended <-chan struct{}, leave func())
}

// UI serves the page. It is safe for concurrent use.
type UI struct {
	config Config
	pages  *pages
	mux    *http.ServeMux
	makers *makers
	// streams counts the live pages; drained ends them.
	streams *streams
	drained chan struct{}
	drain   sync.Once
	// now is the clock, for what is old.
	now func() time.Time
}

// New returns the page.
func New(c Config) (*UI, error) {
	if c.Services == nil || c.Location == "" || c.Panics == nil || c.Logger == nil {
		return nil, errors.New("ui: Config.Services, Location, Panics and Logger are required")
	}
	loaded, err := loadPages()
	if err != nil {
		return nil, err
	}
	u := &UI{
		config: c, pages: loaded, streams: newStreams(), drained: make(chan struct{}),
		makers: newMakers(), now: time.Now,
	}
	u.mux = u.routes()
	return u, nil
}

// Handler serves what is below Root, and leads a browser that asks for / there. All other
// requests go to next.
func (u *UI) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, Root):
			u.ServeHTTP(w, r)
		case path == strings.TrimSuffix(Root, "/"), path == "/" && isGet(r) && strings.Contains(r.Header.Get("Accept"), "text/html"):
			http.Redirect(w, r, Root, http.StatusFound)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// Drain ends the live pages, which would last. It may be called more than once.
func (u *UI) Drain() { u.drain.Do(func() { close(u.drained) }) }

// isGet reports whether a request reads.
func isGet(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// ServeHTTP implements http.Handler for what is below Root.
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer u.recover(w, r)
	protect(w.Header())
	if err := u.config.Guard.Check(r); err != nil {
		u.writeError(w, r, err)
		return
	}
	switch {
	case strings.HasPrefix(r.URL.Path, assetsPath):
		u.pages.serveAsset(w, r)
		return
	case u.config.Login != nil && answeredByLogin(r.URL.Path):
		u.config.Login.ServeHTTP(w, r)
		return
	}
	r, err := u.authenticated(r)
	if err != nil {
		u.refuse(w, r, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if _, pattern := u.mux.Handler(r); pattern == "" {
		u.writeNowhere(w, r)
		return
	}
	u.mux.ServeHTTP(w, r)
}

// protect sets the headers of every answer. Nothing but what this server sends is run, shown
// or asked, and no other page frames it. (CSP 3, Fetch, RFC 9111)
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
		"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// recover turns a panic into a page that says nothing about it.
func (u *UI) recover(w http.ResponseWriter, r *http.Request) {
	if cause := recover(); cause != nil {
		u.config.Panics.Report(r.Context(), diagnostics.PanicAPI, cause)
		u.writeError(w, r, apierror.Internal())
	}
}

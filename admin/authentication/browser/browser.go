package browser

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"google.golang.org/grpc/status"

	"understudy/admin/access"
	"understudy/admin/authentication"
	"understudy/admin/authentication/oidc"
	"understudy/admin/rest"
	"understudy/authz/diagnostics"
)

// The paths that Login answers.
const (
	LoginPath    = "/ui/login"
	CallbackPath = "/ui/callback"
	LogoutPath   = "/ui/logout"
)

// Config is what a login needs.
type Config struct {
	// Authenticator verifies tokens. Required.
	Authenticator *authentication.Authenticator
	// Issuer is where browsers log in, as Client; nil means that tokens are pasted only.
	Issuer *oidc.Issuer
	Client oidc.Client
	// Guard says by which names HTTP may ask.
	Guard rest.Guard
	// URL is where browsers reach the server; nil means the Host that was asked.
	URL *url.URL
	// TLSInFront says that a proxy speaks TLS with browsers.
	TLSInFront bool
	// Layout writes a page; nil means a plain one.
	Layout Layout
	// Logger gets logins that the issuer refuses. Nil means none.
	Logger *slog.Logger
}

// Login serves the pages by which a browser gets a session, and finds who has one. It is
// safe for concurrent use.
type Login struct {
	config Config
	// failures is bounded: whoever reaches the port can come back from no login.
	failures *diagnostics.LimitedLog
	// exchanges has a place for each exchange of a code under way. Nobody needs an account
	// for one, and each asks the issuer.
	exchanges chan struct{}
	sessions  sessions
}

// maxExchanges bounds how many codes are exchanged at once. More are refused, not queued.
const maxExchanges = 8

// maxFailures is how many lines of failures the log has in each failuresEvery at most.
const maxFailures, failuresEvery = 10, time.Minute

// New returns a login.
func New(c Config) (*Login, error) {
	if c.Authenticator == nil {
		return nil, errors.New("browser: Config.Authenticator is required")
	}
	if c.Layout == nil {
		c.Layout = plain
	}
	return &Login{
		config: c, failures: diagnostics.NewLimitedLog(c.Logger, maxFailures, failuresEvery), exchanges: make(chan struct{}, maxExchanges),
		sessions: sessions{of: make(map[[sha256.Size]byte]*watched)},
	}, nil
}

// ServeHTTP answers LoginPath, CallbackPath and LogoutPath.
func (l *Login) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	if err := l.config.Guard.Check(r); err != nil {
		l.show(w, r, http.StatusForbidden, "Refused", problem(status.Convert(err).Message()))
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET " + LoginPath:
		l.begin(w, r)
	case "POST " + LoginPath:
		l.paste(w, r)
	case "GET " + CallbackPath:
		l.comeBack(w, r)
	case "POST " + LogoutPath:
		l.end(w, r)
	default:
		l.show(w, r, http.StatusNotFound, "Not found", problem("There is no such page, or not by this method."))
	}
}

// Authenticate implements access.Authenticator for what is below /ui/: it takes the header
// Authorization if there is one, else the session, else a client certificate. Elsewhere no
// session counts, nor does one with a change that a page of another site sends, which is
// PERMISSION_DENIED.
func (l *Login) Authenticate(r *http.Request) (access.Principal, error) {
	if len(r.Header.Values("Authorization")) > 0 || !below(r.URL.Path) {
		return l.config.Authenticator.Authenticate(r)
	}
	cookies := r.CookiesNamed(l.sessionName(r))
	if len(cookies) == 0 {
		return l.config.Authenticator.Authenticate(r)
	}
	if err := l.config.Guard.Check(r); err != nil {
		return access.Principal{}, err
	}
	token := cookies[0].Value
	if len(cookies) > 1 {
		token = "" // another site may have set one of them: none is taken
	}
	identity, err := l.config.Authenticator.IdentifyToken(r, token)
	return identity.Principal, err
}

// URL is where a browser that asked for a page below /ui/ without a session is sent
// (303 See Other), and comes back from. It is for GET.
func URL(r *http.Request) string {
	return LoginPath + "?" + url.Values{"return": {r.URL.RequestURI()}}.Encode()
}

// begin shows the ways to log in, or leads to the issuer if that was chosen.
func (l *Login) begin(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back := returnPath(q.Get("return"))
	if l.config.Issuer == nil || q.Get("with") != "issuer" {
		l.show(w, r, http.StatusOK, "Log in", l.form(back, ""))
		return
	}
	attempt := newAttempt(l.base(r) + CallbackPath)
	target, err := l.config.Issuer.AuthCodeURL(r.Context(), l.config.Client, attempt)
	if err != nil {
		l.refused(w, r, back, err)
		return
	}
	l.remember(w, r, attempt, back)
	w.Header().Set("Location", target)
	w.WriteHeader(http.StatusSeeOther)
}

// maxForm bounds the body of the form, in bytes: a token and a path.
const maxForm = 64 << 10

// paste takes a token from the form.
func (l *Login) paste(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		l.show(w, r, http.StatusBadRequest, "Log in", l.form("/ui/", "The form cannot be read."))
		return
	}
	back, token := returnPath(r.PostForm.Get("return")), trimmed(r.PostForm.Get("token"))
	identity, err := l.config.Authenticator.IdentifyToken(r, token)
	if err == nil {
		err = l.keep(w, r, token, identity.Expires)
	}
	if large := (*tooLarge)(nil); errors.As(err, &large) {
		l.show(w, r, http.StatusBadRequest, "Log in", l.form(back, large.Error()))
		return
	}
	if err != nil {
		l.show(w, r, rest.StatusOf(err), "Log in", l.form(back, status.Convert(err).Message()))
		return
	}
	w.Header().Set("Location", back)
	w.WriteHeader(http.StatusSeeOther)
}

// comeBack takes the browser from the issuer. The page that it shows leads on: the browser
// sends the session only where a page of this site leads.
func (l *Login) comeBack(w http.ResponseWriter, r *http.Request) {
	attempt, back, ok := l.recall(w, r)
	q := r.URL.Query()
	switch {
	case l.config.Issuer == nil || !ok || !equal(attempt.State, q.Get("state")):
		l.show(w, r, http.StatusBadRequest, "Log in", l.form("/ui/", "No such login was begun in this browser, or it took longer than ten minutes. Begin anew."))
		return
	case q.Get("code") == "":
		l.failures.Log(r.Context(), slog.LevelWarn, "the issuer refuses a login", slog.String("error", diagnostics.Bounded(q.Get("error"))))
		l.show(w, r, http.StatusUnauthorized, "Log in", l.form(back, "The issuer did not log you in."))
		return
	}
	attempt.Redirect = l.base(r) + CallbackPath
	token, claims, err := l.exchange(r.Context(), attempt, q.Get("code"))
	if err == nil {
		err = l.keep(w, r, token, claims.Expires)
	}
	if err != nil {
		l.refused(w, r, back, err)
		return
	}
	w.Header().Set("Refresh", "0;url="+back)
	l.show(w, r, http.StatusOK, "Logged in", onward(back))
}

// errBusy says that maxExchanges codes are being exchanged.
var errBusy = errors.New("too many logins at once")

// exchange gets the token of a code, if there is a place; it waits for none.
func (l *Login) exchange(ctx context.Context, a oidc.Attempt, code string) (string, oidc.Claims, error) {
	select {
	case l.exchanges <- struct{}{}:
		defer func() { <-l.exchanges }()
		return l.config.Issuer.Exchange(ctx, l.config.Client, a, code)
	default:
		return "", oidc.Claims{}, errBusy
	}
}

// refused shows why the token of the issuer is not taken.
func (l *Login) refused(w http.ResponseWriter, r *http.Request, back string, err error) {
	code, text := http.StatusUnauthorized, "The login failed; the server's log says why."
	var refusal *oidc.Refusal
	var large *tooLarge
	switch {
	case errors.Is(err, oidc.ErrUnavailable):
		code, text = http.StatusServiceUnavailable, issuerAway
	case errors.Is(err, errBusy):
		code, text = http.StatusServiceUnavailable, tooManyLogins
	case errors.As(err, &refusal):
		text = refusal.Text
	case errors.As(err, &large):
		text = large.Error()
	default:
		l.failures.Log(r.Context(), slog.LevelWarn, "a login fails", slog.String("error", diagnostics.Bounded(err.Error())))
	}
	l.show(w, r, code, "Log in", l.form(back, text))
}

// end forgets the session, and ends what it is looking at.
func (l *Login) end(w http.ResponseWriter, r *http.Request) {
	if key, found := l.sessionOf(r); found {
		l.sessions.end(key)
	}
	l.forget(w, r, l.sessionName(r))
	w.Header().Set("Location", LoginPath)
	w.WriteHeader(http.StatusSeeOther)
}

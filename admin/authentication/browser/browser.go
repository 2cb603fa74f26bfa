package browser

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/access"
	"understudy/admin/authentication"
	"understudy/admin/authentication/oidc"
	"understudy/admin/rest"
	"understudy/authz/diagnostics"
)

// The paths that Login answers. Behind CallbackPath is the name of an issuer.
const (
	LoginPath    = "/ui/login"
	CallbackPath = "/ui/callback/"
	LogoutPath   = "/ui/logout"
)

// Config is what a login needs.
type Config struct {
	// Authenticator verifies tokens. Required.
	Authenticator *authentication.Authenticator
	// Issuers are where browsers log in. Where none of them knows this server as its client,
	// tokens are pasted only.
	Issuers oidc.Issuers
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
	// failures is bounded: anyone who reaches the port can come back from no login.
	failures *diagnostics.LimitedLog
	// exchanges has a slot for each exchange of a code under way. Nobody needs an account
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
		sessions: sessions{of: make(map[[sha256.Size]byte]*openSession)},
	}, nil
}

// ServeHTTP answers LoginPath, LogoutPath and what is below CallbackPath.
func (l *Login) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	if err := l.config.Guard.Check(r); err != nil {
		l.show(w, r, http.StatusForbidden, "Refused", problem(status.Convert(err).Message()))
		return
	}
	from, back := strings.CutPrefix(r.URL.Path, CallbackPath)
	switch call := r.Method + " " + r.URL.Path; {
	case call == "GET "+LoginPath:
		l.begin(w, r)
	case call == "POST "+LoginPath:
		l.paste(w, r)
	case back && r.Method == http.MethodGet:
		l.comeBack(w, r, from)
	case call == "POST "+LogoutPath:
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

// issuer returns where browsers log in, by its name; nil if that is none.
func (l *Login) issuer(name string) *oidc.Issuer {
	at := slices.IndexFunc(l.config.Issuers, func(i *oidc.Issuer) bool { return i.LogsIn() && i.Name() == name })
	if at < 0 {
		return nil
	}
	return l.config.Issuers[at]
}

// begin shows the ways to log in, or leads to the issuer if one was chosen.
func (l *Login) begin(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back := returnPath(q.Get("return"))
	issuer := l.issuer(q.Get("with"))
	if issuer == nil {
		l.show(w, r, http.StatusOK, "Log in", l.form(back, ""))
		return
	}
	attempt := newAttempt(l.base(r) + CallbackPath + issuer.Name())
	target, err := issuer.AuthCodeURL(r.Context(), attempt)
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
		l.show(w, r, http.StatusBadRequest, "Log in", l.form("/ui/", unreadable(err)))
		return
	}
	back, token := returnPath(r.PostForm.Get("return")), trimmed(r.PostForm.Get("token"))
	err := l.admit(w, r, token)
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

// unreadable says why a form cannot be read. Nobody is known yet, so the port may read less of it
// than maxForm.
func unreadable(err error) string {
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return fmt.Sprintf("The form cannot be read: it has more than %d bytes, and a browser keeps a token of %d. Have the issuer put less into it, such as only the groups that are used here.", large.Limit, maxCookie)
	}
	return "The form cannot be read."
}

// comeBack takes the browser from the issuer of a name. The page that it shows leads on: the
// browser sends the session only where a page of this site leads.
func (l *Login) comeBack(w http.ResponseWriter, r *http.Request, name string) {
	attempt, back, ok := l.recall(w, r)
	q := r.URL.Query()
	redirect := l.base(r) + CallbackPath + name
	issuer := l.issuer(name)
	switch {
	case issuer == nil || !ok || !equal(attempt.State, q.Get("state")) || attempt.Redirect != redirect || !sentBy(issuer, q):
		l.show(w, r, http.StatusBadRequest, "Log in", l.form("/ui/", "No such login was begun in this browser, or it took longer than ten minutes. Begin anew."))
		return
	case q.Get("code") == "":
		l.failures.Log(r.Context(), slog.LevelWarn, "the issuer refuses a login", slog.String("issuer", issuer.URL()), slog.String("error", diagnostics.Bounded(q.Get("error"))))
		l.show(w, r, http.StatusUnauthorized, "Log in", l.form(back, "The issuer did not log you in."))
		return
	}
	token, err := l.exchange(r.Context(), issuer, attempt, q.Get("code"))
	if err == nil {
		err = l.admit(w, r, token)
	}
	if err != nil {
		l.refused(w, r, back, err)
		return
	}
	w.Header().Set("Refresh", "0;url="+back)
	l.show(w, r, http.StatusOK, "Logged in", onward(back))
}

// sentBy reports whether the answer of a login is that of an issuer, as far as it says whose it
// is (RFC 9207).
func sentBy(issuer *oidc.Issuer, answer url.Values) bool {
	return !answer.Has("iss") || answer.Get("iss") == issuer.URL()
}

// errBusy says that maxExchanges codes are being exchanged.
var errBusy = errors.New("too many logins at once")

// exchange gets the token of a code, if a slot is free; it waits for none.
func (l *Login) exchange(ctx context.Context, issuer *oidc.Issuer, a oidc.Attempt, code string) (token string, err error) {
	select {
	case l.exchanges <- struct{}{}:
		defer func() { <-l.exchanges }()
		token, _, err = issuer.Exchange(ctx, a, code)
		return token, err
	default:
		return "", errBusy
	}
}

// admit gives the browser its session, if the bearer of the token is let in.
func (l *Login) admit(w http.ResponseWriter, r *http.Request, token string) error {
	identity, err := l.config.Authenticator.IdentifyToken(r, token)
	if err != nil {
		return err
	}
	return l.keep(w, r, token, identity.Expires)
}

// refused shows why the token of the issuer is not taken.
func (l *Login) refused(w http.ResponseWriter, r *http.Request, back string, err error) {
	code, text := http.StatusUnauthorized, "The login failed; the server's log says why."
	var refusal *oidc.Refusal
	var large *tooLarge
	var away *oidc.Unavailable
	switch {
	case errors.As(err, &away):
		code, text = http.StatusServiceUnavailable, oidc.NameOf(away.Issuer)+issuerAway
	case errors.Is(err, errBusy):
		code, text = http.StatusServiceUnavailable, tooManyLogins
	case errors.As(err, &refusal):
		text = refusal.Text
	case errors.As(err, &large):
		text = large.Error()
	case status.Code(err) == codes.Unauthenticated:
		text = status.Convert(err).Message()
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

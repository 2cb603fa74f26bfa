package browser

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"understudy/admin/authentication/oidc"
)

const (
	// sessionCookie has the token, loginCookie what a login remembers.
	sessionCookie, loginCookie = "understudy-session", "understudy-login"
	// hostPrefix has browsers take a cookie from this host alone, over TLS alone
	// (RFC 6265bis, section 4.1.3.2).
	hostPrefix = "__Host-"
	// loginTime is how long a login at the issuer may take, sessionTime how long a browser
	// keeps a token that has no end of its own.
	loginTime, sessionTime = 10 * time.Minute, 12 * time.Hour
	// maxCookie bounds a token in a cookie, in bytes: browsers keep 4096 with the name and
	// the attributes.
	maxCookie = 3800
)

// tooLarge is the error of a token that no browser keeps.
type tooLarge struct{ size int }

// Error says how to mend it.
func (t *tooLarge) Error() string {
	return fmt.Sprintf("The token has %d bytes, and a browser keeps %d in a cookie. Have the issuer put less into it, such as only the groups that are used here.", t.size, maxCookie)
}

// secure reports whether the browser speaks TLS with the server, or what is in front of it.
func (l *Login) secure(r *http.Request) bool {
	return r.TLS != nil || l.config.TLSInFront || l.config.URL != nil && l.config.URL.Scheme == "https"
}

// named is the name of a cookie.
func (l *Login) named(r *http.Request, name string) string {
	if l.secure(r) {
		return hostPrefix + name
	}
	return name
}

// sessionName is the name of the cookie with the session.
func (l *Login) sessionName(r *http.Request) string { return l.named(r, sessionCookie) }

// cookie is one of ours. With TLS its path is / because of its prefix; it counts below /ui/
// all the same.
func (l *Login) cookie(r *http.Request, name, value string, site http.SameSite, age time.Duration) *http.Cookie {
	c := &http.Cookie{Name: name, Value: value, Path: "/ui/", HttpOnly: true, SameSite: site, MaxAge: int(age / time.Second)}
	if l.secure(r) {
		c.Path, c.Secure = "/", true
	}
	return c
}

// keep gives the browser its session, until the token ends.
func (l *Login) keep(w http.ResponseWriter, r *http.Request, token string, expires time.Time) error {
	if len(token) > maxCookie {
		return &tooLarge{len(token)}
	}
	age := sessionTime
	if !expires.IsZero() {
		age = min(age, max(time.Second, time.Until(expires)))
	}
	http.SetCookie(w, l.cookie(r, l.sessionName(r), token, http.SameSiteStrictMode, age))
	return nil
}

// forget makes the browser forget a cookie.
func (l *Login) forget(w http.ResponseWriter, r *http.Request, name string) {
	c := l.cookie(r, name, "", http.SameSiteStrictMode, 0)
	c.MaxAge = -1
	http.SetCookie(w, c)
}

// remembered is what the cookie of a login holds.
type remembered struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	// Redirect has the name of the issuer.
	Redirect string `json:"u"`
	Return   string `json:"r"`
}

// newAttempt makes a login. Each of its texts has more than 128 random bits.
func newAttempt(redirect string) oidc.Attempt {
	// 43 characters are the least that a verifier has (RFC 7636, section 4.1).
	return oidc.Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), Redirect: redirect}
}

// remember gives the browser what it has to bring back. The cookie is Lax: it comes with a
// page of the issuer's that leads here.
func (l *Login) remember(w http.ResponseWriter, r *http.Request, a oidc.Attempt, back string) {
	text, _ := json.Marshal(remembered{a.State, a.Nonce, a.Verifier, a.Redirect, back})
	name := l.named(r, loginCookie)
	http.SetCookie(w, l.cookie(r, name, base64.RawURLEncoding.EncodeToString(text), http.SameSiteLaxMode, loginTime))
}

// recall returns what the browser brings back, once.
func (l *Login) recall(w http.ResponseWriter, r *http.Request) (a oidc.Attempt, back string, ok bool) {
	name := l.named(r, loginCookie)
	cookies := r.CookiesNamed(name)
	l.forget(w, r, name)
	if len(cookies) != 1 {
		return a, "", false
	}
	var from remembered
	text, err := base64.RawURLEncoding.DecodeString(cookies[0].Value)
	if err != nil || json.Unmarshal(text, &from) != nil || from.State == "" || from.Nonce == "" || from.Verifier == "" {
		return a, "", false
	}
	return oidc.Attempt{State: from.State, Nonce: from.Nonce, Verifier: from.Verifier, Redirect: from.Redirect}, returnPath(from.Return), true
}

// equal compares in constant time.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// trimmed is a pasted text without the space around it.
func trimmed(text string) string { return strings.TrimSpace(text) }

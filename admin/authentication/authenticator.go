package authentication

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/authentication/oidc"
	"understudy/admin/authentication/revocation"
	"understudy/admin/authentication/tokens"
)

// Config is which credentials are taken. At least one way is needed.
type Config struct {
	// Certificates takes client certificates. TLS has verified those of a connection.
	Certificates bool
	// Tokens are those of token files; nil takes none.
	Tokens *tokens.Files
	// Issuers make ID tokens; none takes none.
	Issuers oidc.Issuers
	// Revoked are refused whatever their credentials are; nil refuses nobody.
	Revoked *revocation.List
	// Signatures says that the Policyfile API takes requests that are signed, which it
	// verifies itself. If that is the only way, the other APIs take nobody.
	Signatures bool
	// Meters count authentications. Nil counts nothing.
	Meters metric.MeterProvider
}

// Authenticator finds who sends a request. It is safe for concurrent use.
type Authenticator struct {
	certificates bool
	tokens       *tokens.Files
	issuers      oidc.Issuers
	revoked      *revocation.List
	metrics      *metrics
	// takes says which credentials this server takes, for errors.
	takes string
}

// Identity is a principal, and until when its credentials are good.
type Identity struct {
	access.Principal
	// Expires is when the credentials end. Zero means that they have no such time.
	Expires time.Time
}

// New returns an authenticator.
func New(c Config) (*Authenticator, error) {
	if !c.Certificates && !c.Signatures && c.Tokens == nil && len(c.Issuers) == 0 {
		return nil, errors.New("authentication: Config has no way to authenticate")
	}
	if err := c.Issuers.Check(); err != nil {
		return nil, fmt.Errorf("authentication: Config.Issuers: %w", err)
	}
	m, err := newMetrics(c)
	if err != nil {
		return nil, fmt.Errorf("authentication: making the metrics: %w", err)
	}
	return &Authenticator{
		certificates: c.Certificates, tokens: c.Tokens, issuers: c.Issuers, revoked: c.Revoked, metrics: m, takes: takes(c),
	}, nil
}

// takes says which credentials are taken.
func takes(c Config) string {
	var ways []string
	var from []string
	if c.Tokens != nil {
		from = append(from, "a token file")
	}
	for _, url := range c.Issuers.URLs() {
		from = append(from, "the issuer "+url)
	}
	if len(from) > 0 {
		ways = append(ways, "a token of "+strings.Join(from, " or of ")+", sent as 'Authorization: Bearer TOKEN'")
	}
	if c.Certificates {
		ways = append(ways, "a client certificate")
	}
	if c.Signatures {
		ways = append(ways, "requests of the Policyfile API that are signed by a --chef-key")
	}
	return "This server takes " + strings.Join(ways, ", or ") + "."
}

// Authenticate implements access.Authenticator.
func (a *Authenticator) Authenticate(r *http.Request) (access.Principal, error) {
	identity, err := a.Identify(r)
	return identity.Principal, err
}

// Identify is Authenticate, and says until when the credentials are good too.
func (a *Authenticator) Identify(r *http.Request) (Identity, error) {
	identity, method, err := a.identify(r)
	if err == nil && access.CheckMember(identity.Member) != nil {
		err = unfitName
	}
	if err == nil && a.revoked.Refuses(r.Context(), identity.Principal) {
		err = revoked
	}
	a.metrics.add(r.Context(), method, err)
	if err != nil {
		return Identity{}, a.failure(err)
	}
	access.Known(r.Context())
	return identity, nil
}

// IdentifyToken is Identify of a bearer token that came in another way.
func (a *Authenticator) IdentifyToken(r *http.Request, token string) (Identity, error) {
	with := r.Clone(r.Context())
	with.Header.Set("Authorization", "Bearer "+token)
	return a.Identify(with)
}

// Admit returns an error if a principal is revoked that was found in another way than by
// Identify.
func (a *Authenticator) Admit(ctx context.Context, p access.Principal) error {
	if !a.revoked.Refuses(ctx, p) {
		return nil
	}
	return a.failure(revoked)
}

// CountSignature counts the verification of a signature, which the Policyfile API does itself.
// The outcome is one of a few words.
func (a *Authenticator) CountSignature(ctx context.Context, ended string) {
	a.metrics.addOutcome(ctx, access.MethodChef, outcome(ended))
}

// identify takes the header if there is one, else the certificate. The method is that of
// the credentials, good or bad.
func (a *Authenticator) identify(r *http.Request) (Identity, access.Method, error) {
	if headers := r.Header.Values("Authorization"); len(headers) > 0 {
		token, err := bearer(headers)
		if err != nil {
			return Identity{}, "", err
		}
		return a.identifyToken(r.Context(), token)
	}
	if a.certificates && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		identity, err := ofCertificate(r.TLS.VerifiedChains[0][0], time.Now())
		return identity, access.MethodCertificate, err
	}
	return Identity{}, "", missing
}

// identifyToken looks for a token in the token files, and takes what looks like one of an
// issuer to that. Both kinds are verified in full, so that the order decides nothing.
func (a *Authenticator) identifyToken(ctx context.Context, token string) (Identity, access.Method, error) {
	if a.tokens != nil {
		switch bearer, err := a.tokens.Find(token); {
		case err == nil:
			p := access.Principal{Member: "token:" + bearer.Name, Method: access.MethodToken}
			return Identity{Principal: p, Expires: bearer.Expires}, access.MethodToken, nil
		case errors.Is(err, tokens.ErrExpired):
			return Identity{}, access.MethodToken, expiredToken
		}
	}
	if len(a.issuers) > 0 && oidc.LooksLikeToken(token) {
		claims, err := a.issuers.Verify(ctx, token)
		if err != nil {
			return Identity{}, access.MethodOIDC, err
		}
		return identityOf(claims), access.MethodOIDC, nil
	}
	method := access.MethodToken
	if a.tokens == nil {
		method = access.MethodOIDC
	}
	if a.tokens == nil && len(a.issuers) == 0 {
		method = ""
	}
	return Identity{}, method, unknownToken
}

// identityOf is who a token of an issuer is for. The groups are those of this issuer.
func identityOf(c oidc.Claims) Identity {
	p := access.Principal{Member: c.Member(), Display: access.DisplayName(c.Display), Method: access.MethodOIDC}
	for _, name := range c.Groups {
		p.Groups = append(p.Groups, access.Group{Issuer: c.Issuer, Name: name}.String())
	}
	return Identity{Principal: p, Expires: c.Expires}
}

// failure is what a caller gets for an error of identify.
func (a *Authenticator) failure(err error) error {
	var away *oidc.Unavailable
	if errors.As(err, &away) {
		return apierror.IssuerUnavailable(away.Issuer)
	}
	var refused *oidc.Refusal
	if errors.As(err, &refused) {
		return apierror.Unauthenticated(refused.Text + " " + a.takes)
	}
	var bad refusal
	if errors.As(err, &bad) && bad.outcome == outcomeRevoked {
		return apierror.Unauthenticated(bad.text)
	}
	if errors.As(err, &bad) {
		return apierror.Unauthenticated(bad.text + " " + a.takes)
	}
	return apierror.Internal()
}

// Run reads the token files and that of revoked principals again as they change, and keeps the issuers' keys fresh, until
// ctx is done. every is how often files are looked at.
func (a *Authenticator) Run(ctx context.Context, every time.Duration) error {
	var parts sync.WaitGroup
	if a.tokens != nil {
		parts.Go(func() { a.tokens.Follow(ctx, every) })
	}
	if a.revoked != nil {
		parts.Go(func() { a.revoked.Follow(ctx, every) })
	}
	parts.Go(func() { a.issuers.Follow(ctx) })
	parts.Wait()
	return nil
}

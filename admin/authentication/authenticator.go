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
	"understudy/admin/authentication/tokens"
)

// Config is which credentials are taken. At least one way is needed.
type Config struct {
	// Certificates takes client certificates. TLS has verified those of a connection.
	Certificates bool
	// Tokens are those of token files; nil takes none.
	Tokens *tokens.Files
	// Issuer makes ID tokens; nil takes none.
	Issuer *oidc.Issuer
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
	issuer       *oidc.Issuer
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
	if !c.Certificates && !c.Signatures && c.Tokens == nil && c.Issuer == nil {
		return nil, errors.New("authentication: Config has no way to authenticate")
	}
	m, err := newMetrics(c)
	if err != nil {
		return nil, fmt.Errorf("authentication: making the metrics: %w", err)
	}
	return &Authenticator{
		certificates: c.Certificates, tokens: c.Tokens, issuer: c.Issuer, metrics: m, takes: takes(c),
	}, nil
}

// takes says which credentials are taken.
func takes(c Config) string {
	var ways []string
	if c.Tokens != nil || c.Issuer != nil {
		from := "a token file"
		switch {
		case c.Tokens != nil && c.Issuer != nil:
			from = "a token file or of the issuer " + c.Issuer.URL()
		case c.Issuer != nil:
			from = "the issuer " + c.Issuer.URL()
		}
		ways = append(ways, "a token of "+from+", sent as 'Authorization: Bearer TOKEN'")
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
	a.metrics.add(r.Context(), method, err)
	if err != nil {
		return Identity{}, a.failure(err)
	}
	return identity, nil
}

// IdentifyToken is Identify of a bearer token that came in another way.
func (a *Authenticator) IdentifyToken(r *http.Request, token string) (Identity, error) {
	with := r.Clone(r.Context())
	with.Header.Set("Authorization", "Bearer "+token)
	return a.Identify(with)
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
		if name, found := a.tokens.Find(token); found {
			p := access.Principal{Member: "token:" + name, Method: access.MethodToken}
			return Identity{Principal: p}, access.MethodToken, nil
		}
	}
	if a.issuer != nil && oidc.LooksLikeToken(token) {
		claims, err := a.issuer.Verify(ctx, token)
		if err != nil {
			return Identity{}, access.MethodOIDC, err
		}
		p := access.Principal{Member: claims.Member(), Groups: claims.Groups, Method: access.MethodOIDC}
		return Identity{Principal: p, Expires: claims.Expires}, access.MethodOIDC, nil
	}
	method := access.MethodToken
	if a.tokens == nil {
		method = access.MethodOIDC
	}
	if a.tokens == nil && a.issuer == nil {
		method = ""
	}
	return Identity{}, method, unknownToken
}

// failure is what a caller gets for an error of identify.
func (a *Authenticator) failure(err error) error {
	if errors.Is(err, oidc.ErrUnavailable) {
		return apierror.IssuerUnavailable(a.issuer.URL())
	}
	var refused *oidc.Refusal
	if errors.As(err, &refused) {
		return apierror.Unauthenticated(refused.Text + " " + a.takes)
	}
	var bad refusal
	if errors.As(err, &bad) {
		return apierror.Unauthenticated(bad.text + " " + a.takes)
	}
	return apierror.Internal()
}

// Run reads the token files again as they change, and keeps the issuer's keys fresh, until
// ctx is done. every is how often files are looked at.
func (a *Authenticator) Run(ctx context.Context, every time.Duration) error {
	var parts sync.WaitGroup
	if a.tokens != nil {
		parts.Go(func() { a.tokens.Follow(ctx, every) })
	}
	if a.issuer != nil {
		parts.Go(func() { a.issuer.Follow(ctx) })
	}
	parts.Wait()
	return nil
}

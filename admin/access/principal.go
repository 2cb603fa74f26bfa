package access

import (
	"context"
	"net/http"
)

// Principal is who sends a request. The zero Principal is nobody in particular: the caller
// of a server without authentication.
type Principal struct {
	// Member is its name in bindings: spiffe://…, cert:NAME, oidc:ISSUER#SUB, token:NAME
	// or chef:NAME. It is empty for nobody in particular.
	Member string
	// Groups are those that its issuer says it is in, as Group.String writes them.
	Groups []string
	// Display is a name for people that the issuer gives it, as DisplayName writes it; empty if
	// there is none. Many may have the same: nothing is ever decided by it.
	Display string
	// Method is how it was authenticated.
	Method Method
}

// Group is a group of an issuer. It belongs to its issuer: one of the same name at another issuer
// is another group.
type Group struct {
	// Issuer is the URL of the issuer, and Name what the issuer calls the group.
	Issuer, Name string
}

// String returns the group as a binding names it behind group:.
func (g Group) String() string { return g.Issuer + "#" + g.Name }

// MemberOfGroup is the member of bindings that stands for all principals of a group.
func MemberOfGroup(group string) string { return groupPrefix + group }

// Method is a way to authenticate.
type Method string

// The methods.
const (
	// MethodCertificate is a client certificate (mTLS).
	MethodCertificate Method = "certificate"
	// MethodOIDC is an ID token of an OpenID Connect issuer.
	MethodOIDC Method = "oidc"
	// MethodToken is a token of a token file.
	MethodToken Method = "token"
	// MethodChef is the signed headers of Chef's API.
	MethodChef Method = "chef"
)

// AllAuthenticated is the member that every principal with a name is.
const AllAuthenticated = "allAuthenticated"

// Known reports whether the principal was authenticated.
func (p Principal) Known() bool { return p.Member != "" }

// principalKey is the key of the Principal in a context.
type principalKey struct{}

// NewContext returns a context of a request that p sends.
func NewContext(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// FromContext returns who sends the request of a context; the zero Principal if nobody
// was authenticated.
func FromContext(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}

// Authenticator finds who sends a request. Implementations are safe for concurrent use.
type Authenticator interface {
	// Authenticate returns who sends the request, and reads nothing of its body. The
	// error is UNAUTHENTICATED if there are no credentials, or bad ones, and UNAVAILABLE if
	// that cannot be found out now.
	Authenticate(r *http.Request) (Principal, error)
}

// Revocations say which principals are refused, whatever bindings say. Implementations are safe
// for concurrent use.
type Revocations interface {
	// Revoked reports whether a principal is refused.
	Revoked(p Principal) bool
}

// Challenge is the header WWW-Authenticate of a 401 (RFC 6750).
const Challenge = `Bearer realm="understudy"`

// Authorizer finds what a principal may do. Implementations are safe for concurrent use.
type Authorizer interface {
	// Authorize returns nil if the principal of the context has the permission on a
	// resource: a project, a location, a policy, or something below one of them. The
	// error is PERMISSION_DENIED in the words of AIP-211, the same whether the resource
	// exists or not, or that of the store.
	Authorize(ctx context.Context, p Permission, resource string) error
	// Permitted returns those of the permissions that the principal of the context has on
	// a resource, in their order.
	Permitted(ctx context.Context, resource string, permissions []Permission) ([]Permission, error)
}

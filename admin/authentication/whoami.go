package authentication

import (
	"net/http"
	"time"

	"understudy/admin/access"
	"understudy/admin/rest"
)

// WhoAmIPath is where a caller asks who it is.
const WhoAmIPath = "/whoami"

// WhoAmI is the answer at WhoAmIPath. It is no resource of the API: it says who the
// credentials of a request belong to.
type WhoAmI struct {
	// Principal is the member of bindings; empty if the server has no authentication.
	Principal string `json:"principal"`
	// Display is a name for people; absent if the credentials have none. It is nobody's identity.
	Display string `json:"display,omitempty"`
	// Groups are members too, such as group:https://login.example.com#ops.
	Groups []string `json:"groups"`
	// Method is certificate, oidc or token; none if the server has no authentication.
	Method string `json:"method"`
	// Expires is when the credentials end (RFC 3339). It is absent if they have no such time.
	Expires *time.Time `json:"expires,omitempty"`
}

// ServeWhoAmI answers GET and HEAD at WhoAmIPath. The authenticator is nil on a server
// without authentication.
func ServeWhoAmI(a *Authenticator, guard rest.Guard) http.Handler {
	return serveExtra(guard, func(r *http.Request) (any, error) { return whoIs(a, r) })
}

// whoIs is the answer to a request.
func whoIs(a *Authenticator, r *http.Request) (WhoAmI, error) {
	if a == nil {
		return WhoAmI{Groups: []string{}, Method: "none"}, nil
	}
	identity, err := a.Identify(r)
	if err != nil {
		return WhoAmI{}, err
	}
	answer := WhoAmI{Principal: identity.Member, Display: identity.Display, Groups: []string{}, Method: string(identity.Method)}
	for _, group := range identity.Groups {
		answer.Groups = append(answer.Groups, access.MemberOfGroup(group))
	}
	if !identity.Expires.IsZero() {
		expires := identity.Expires.UTC()
		answer.Expires = &expires
	}
	return answer, nil
}

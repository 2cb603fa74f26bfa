package authentication

import (
	"errors"
	"net/http"

	"understudy/admin/access"
	"understudy/admin/rest"
)

// MembersPath is where a caller asks whom the flags of a server name.
const MembersPath = "/members"

// Members is the answer at MembersPath. It is no resource of the API: nothing of it is stored,
// and another server of the same store may have other flags.
type Members struct {
	// Tokens are the names of the tokens in token files, sorted, without the prefix token:. It
	// is null if the server has no authentication.
	Tokens []string `json:"tokens"`
	// Owners are the members who may everything, whatever is bound (--admin-owner).
	Owners []string `json:"owners"`
}

// MembersConfig is what an answer at MembersPath is made of.
type MembersConfig struct {
	// Authenticator says who asks, and Authorizer what the caller may. Both are nil on a
	// server without authentication.
	Authenticator *Authenticator
	Authorizer    access.Authorizer
	// Project is the resource name of the project whose bindings the caller has to be allowed
	// to read (access.ProjectsGetIAMPolicy). Required.
	Project string
	// Owners are those of Members.
	Owners []string
	// Guard checks where a request comes from.
	Guard rest.Guard
}

// ServeMembers answers GET and HEAD at MembersPath.
func ServeMembers(c MembersConfig) (http.Handler, error) {
	if c.Project == "" || (c.Authenticator == nil) != (c.Authorizer == nil) {
		return nil, errors.New("authentication: MembersConfig.Project, and both or neither of Authenticator and Authorizer, are required")
	}
	return serveExtra(c.Guard, func(r *http.Request) (any, error) { return c.members(r) }), nil
}

// members is the answer to a request.
func (c MembersConfig) members(r *http.Request) (Members, error) {
	out := Members{Owners: append([]string{}, c.Owners...)}
	if c.Authenticator == nil {
		return out, nil
	}
	who, err := c.Authenticator.Authenticate(r)
	if err != nil {
		return Members{}, err
	}
	ctx := access.NewContext(r.Context(), who)
	if err := c.Authorizer.Authorize(ctx, access.ProjectsGetIAMPolicy, c.Project); err != nil {
		return Members{}, err
	}
	out.Tokens = []string{}
	if tokens := c.Authenticator.tokens; tokens != nil {
		out.Tokens = tokens.Names()
	}
	return out, nil
}

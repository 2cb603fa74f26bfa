package ui

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/access"
)

// The paths of Config.Login. The first takes the address to come back to as the parameter
// return.
const (
	loginPath  = Root + "login"
	logoutPath = Root + "logout"
)

// answeredByLogin reports whether Config.Login answers a path: an issuer leads a browser back
// below callback/.
func answeredByLogin(path string) bool {
	return path == loginPath || path == logoutPath || strings.HasPrefix(path, Root+"callback/")
}

// authenticated returns the request with its principal in the context.
func (u *UI) authenticated(r *http.Request) (*http.Request, error) {
	if u.config.Authenticator == nil {
		return r, nil
	}
	p, err := u.config.Authenticator.Authenticate(r)
	if err != nil {
		return r, err
	}
	return r.WithContext(access.NewContext(r.Context(), p)), nil
}

// refuse answers who is not known: a browser that looks is sent to log in, and comes back.
func (u *UI) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if status.Code(err) != codes.Unauthenticated || u.config.Login == nil || !isGet(r) || live(r) {
		u.writeError(w, r, err)
		return
	}
	http.Redirect(w, r, loginPath+"?"+url.Values{"return": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
}

// permissions are those that anyone who asks has on a resource.
type permissions map[access.Permission]bool

// permitted asks which of some permissions the principal has on a resource.
func (u *UI) permitted(ctx context.Context, resource string, of ...access.Permission) (permissions, error) {
	if u.config.Authorizer != nil {
		var err error
		if of, err = u.config.Authorizer.Permitted(ctx, resource, of); err != nil {
			return nil, err
		}
	}
	has := make(permissions, len(of))
	for _, p := range of {
		has[p] = true
	}
	return has, nil
}

// denied reports whether a call failed since its caller may not make it.
func denied(err error) bool { return status.Code(err) == codes.PermissionDenied }

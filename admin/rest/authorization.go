package rest

import (
	"net/http"

	"understudy/admin/access"
	"understudy/admin/apierror"
)

// authorize returns the error of a caller who may not make the call that a request is. The
// path says what it is about, so nothing of the query or the body has been looked at.
func (a *API) authorize(r *http.Request, route route) error {
	if a.authorizer == nil || route.document {
		return nil
	}
	need, ok := access.NeedOf(route.rpc)
	if !ok {
		return apierror.Unimplemented("The method")
	}
	resource := route.resource(r.URL.EscapedPath())
	if p := need.On(resource); p != "" {
		return a.authorizer.Authorize(r.Context(), p, resource)
	}
	return nil
}

package rest

import (
	"cmp"
	"net/http"
	"strings"

	"understudy/admin/access"
	"understudy/admin/audit"
)

// recorded begins the entry of a call of REST that changes something, before it is known
// whether its caller may make it. end ends it with the status of the answer if nobody who
// knows more has ended it by then.
func (a *API) recorded(w http.ResponseWriter, r *http.Request, route route) (http.ResponseWriter, *http.Request, func()) {
	if need, _ := access.NeedOf(route.rpc); a.audit == nil || !need.Audited {
		return w, r, func() {}
	}
	ctx, entry := a.audit.Begin(r.Context(), audit.Call{
		Method: strings.TrimPrefix(route.rpc, "/"), Resource: route.resource(r.URL.EscapedPath()),
	})
	answer := &observedResponse{ResponseWriter: w}
	return answer, r.WithContext(ctx), func() {
		entry.End(audit.HTTPOutcome(cmp.Or(answer.code, http.StatusInternalServerError))) // a panic has not answered yet
	}
}

// observedResponse is a response whose status is looked at.
type observedResponse struct {
	http.ResponseWriter
	// code is 0 as long as there is no answer.
	code int
}

// WriteHeader implements http.ResponseWriter.
func (o *observedResponse) WriteHeader(code int) {
	o.code = code
	o.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (o *observedResponse) Write(p []byte) (int, error) {
	o.code = cmp.Or(o.code, http.StatusOK)
	return o.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (o *observedResponse) Unwrap() http.ResponseWriter { return o.ResponseWriter }

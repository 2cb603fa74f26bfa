package httpauthz

import (
	"net/http"

	"understudy/authz"
)

// headerObserved says what an observer's reply would have been: ALLOW or DENY.
const headerObserved = "X-Understudy-Observed"

// observed returns the reply of an observer in place of a reply that would enforce.
func (r *reply) observed() *reply {
	out := &reply{allow: true, status: http.StatusOK, header: http.Header{}}
	effect := authz.Deny
	if r.allow {
		effect = authz.Allow
	}
	out.header.Set(headerObserved, effect.String())
	for _, name := range []string{headerDecisionID, headerFailure} {
		if value := r.header.Get(name); value != "" {
			out.header.Set(name, value)
		}
	}
	return out
}

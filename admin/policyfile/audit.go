package policyfile

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"understudy/admin/audit"
)

// recorded runs a call that was routed, and records it if it is one that changes something.
func (a *API) recorded(
	r *http.Request, project string, match found, run func(*http.Request) (*reply, error),
) (answer *reply, err error) {
	if !changes(match.route) {
		return run(r)
	}
	ctx, entry := a.audit.Begin(r.Context(), audit.Call{Method: match.route, Resource: resourceOf(project, match.route, match.parameters)})
	outcome := audit.HTTPOutcome(http.StatusInternalServerError) // so a panic ends
	defer func() { entry.End(outcome) }()
	answer, err = run(r.WithContext(ctx))
	outcome = outcomeOf(err)
	return answer, err
}

// changes reports whether a route changes what is stored. A sandbox is never stored.
func changes(route string) bool {
	method, path, _ := strings.Cut(route, " ")
	return method != http.MethodGet && !strings.HasPrefix(path, "/sandboxes")
}

// resourceOf is the name of what a call is about, as far as its path says.
func resourceOf(project, route string, parameters map[string]string) string {
	name := "projects/" + url.PathEscape(project)
	if _, path, _ := strings.Cut(route, " "); strings.HasPrefix(path, "/containers/policies/") {
		name += "/" + onNames
	}
	for _, segment := range []struct{ parameter, collection string }{
		{":group", "/locations/"}, {":policy", "/policies/"}, {":revision", "/revisions/"},
		{":cookbook", "/locations/" + reservedGroup + "/artifacts/"}, {":identifier", "/identifiers/"},
	} {
		value, given := parameters[segment.parameter]
		if !given {
			continue
		}
		if segment.parameter == ":policy" && parameters[":group"] == "" {
			name += "/locations/" + reservedGroup
		}
		name += segment.collection + url.PathEscape(value)
	}
	return name
}

// outcomeOf is the error of a call as a status: of a Problem that of its cause, or else its
// code alone.
func outcomeOf(err error) error {
	var p *Problem
	if errors.As(err, &p) && p.cause != nil {
		return p.cause
	}
	if p != nil {
		return audit.HTTPOutcome(p.Status)
	}
	return err
}

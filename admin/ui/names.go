package ui

import (
	"net/http"
	"net/url"
	"strings"

	"understudy/authz"
)

// named returns the name of the resource that a path is about: its segments from projects
// on, as many as there are IDs in the pattern.
func named(r *http.Request, collections ...string) string {
	var b strings.Builder
	for i, c := range collections {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(c + "/" + r.PathValue(c))
	}
	return b.String()
}

// address is where a resource is shown. IDs have no characters that a path would escape,
// but for the colon of those that came through the Policyfile API, which needs no escape.
func address(name string, more ...string) string {
	return (&url.URL{Path: Root + strings.Join(append([]string{name}, more...), "/")}).EscapedPath()
}

// id is the last segment of a name.
func id(name string) string { return authz.ResourceName(name).ID() }

// locationOf is the location that a resource is in.
func locationOf(name string) string { return string(authz.ResourceName(name).Location()) }

// policyOf is the policy that a resource is in.
func policyOf(name string) string { return string(authz.ResourceName(name).Policy()) }

// projectOf is the project that a resource is in.
func projectOf(name string) string { return "projects/" + authz.ResourceName(name).Project() }

// link is a name with an address.
type link struct{ Text, Address string }

// crumbs lead from the location down to a resource, without it.
func crumbs(name string) []link {
	location := locationOf(name)
	out := []link{{"Policies of " + id(location), address(location)}}
	if policy := policyOf(name); policy != "" && policy != name {
		out = append(out, link{id(policy), address(policy)})
	}
	return out
}

// shortEtag is the beginning of an etag or of a revision ID: enough to compare it with
// another one by eye.
func shortEtag(etag string) string {
	text := strings.TrimSuffix(strings.TrimPrefix(etag, `W/"`), `"`)
	return text[:min(len(text), 12)]
}

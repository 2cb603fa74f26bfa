package testgen

import (
	"context"
	"slices"
	"strings"
)

// routePlaces are where a document says which route the request is of: in that of Envoy, and in
// one of another form. The path stands there whole, and in its segments.
var (
	envoyRoute = [][]string{{"attributes", "request", "http", "method"}, {"attributes", "request", "http", "path"}, {"parsed_path"}}
	plainRoute = [][]string{{"method"}, {"path"}}
)

// routeOf returns the places of the route in a document.
func routeOf(document any) [][]string {
	if object, _ := document.(map[string]any); object["attributes"] != nil {
		return envoyRoute
	}
	return plainRoute
}

// ofRoute reports whether a place is one of the route, or has one in it. What a test is about is
// a request of this route: without its path, or with half of it, a document is one of another.
func ofRoute(route [][]string, place []string) (whole, part bool) {
	for _, r := range route {
		if len(place) <= len(r) && slices.Equal(place, r[:len(place)]) {
			return len(place) == len(r), true
		}
	}
	return false, false
}

// anonymise replaces the segments of the path that name one resource, such as the 7 of
// /users/7, with a word, where the difference does not need the name.
func (s *subject) anonymise(ctx context.Context) {
	for i, segment := range strings.Split(strings.Trim(s.of.Path, "/"), "/") {
		if segment == "**" {
			return // what is behind it may be a part of the route
		}
		if segment != "*" {
			continue
		}
		kept := s.document
		if s.document = withSegment(kept, i); !s.holds(ctx) {
			s.document = kept
		}
	}
}

// withSegment returns a copy of a document in which one segment of the path is a word, wherever
// the path stands.
func withSegment(document any, i int) any {
	copied := replaced(document, func(leaf any) any { return leaf })
	object, ok := copied.(map[string]any)
	if !ok {
		return copied
	}
	if segments, ok := object["parsed_path"].([]any); ok && i < len(segments) {
		segments[i] = word
	}
	for _, of := range []map[string]any{object, at(object, "attributes", "request", "http")} {
		switch path := of["path"].(type) {
		case string:
			of["path"] = pathWith(path, i)
		case []any:
			if i < len(path) {
				path[i] = word
			}
		}
	}
	return copied
}

// pathWith returns a path, which may have a query, with a word as one of its segments.
func pathWith(path string, i int) string {
	before, query, found := strings.Cut(path, "?")
	if found {
		query = "?" + query
	}
	segments := strings.Split(strings.TrimPrefix(before, "/"), "/")
	if i < len(segments) {
		segments[i] = word
	}
	return "/" + strings.Join(segments, "/") + query
}

// at returns the object at a path of names; nil if there is none.
func at(object map[string]any, names ...string) map[string]any {
	for _, name := range names {
		object, _ = object[name].(map[string]any)
	}
	return object
}

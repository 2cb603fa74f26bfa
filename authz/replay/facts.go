package replay

import (
	"strings"

	"understudy/authz"
	"understudy/authz/extauthz/input"
	"understudy/authz/logreader"
)

// fields is a set of envoyFields.
type fields uint8

// envoyFields are fields that every input document for Envoy has, anyone who made it: one without
// them was cut before it was logged. Each has a bit.
var envoyFields = map[fields][]string{
	hasMethod:  {"attributes", "request", "http", "method"},
	hasPath:    {"attributes", "request", "http", "path"},
	hasHeaders: {"attributes", "request", "http", "headers"},
	hasParsed:  {"parsed_path"},
	hasQuery:   {"parsed_query"},
}

// The bits of envoyFields, and of those that no document lacks.
const (
	hasMethod fields = 1 << iota
	hasPath
	hasHeaders
	hasParsed
	hasQuery
	hasAll = 1<<iota - 1
)

// requestOf returns the request of an entry, its input document, and which of the fields that has. The
// error is that of a CheckRequest that is none, which comes without a document.
func requestOf(e *logreader.Entry, checks *input.Reader) (r *authz.Request, in recordedInput, has fields, err error) {
	if e.Check != nil {
		if r, _, err = checks.ReadJSON(e.Check); err != nil {
			return nil, in, 0, err
		}
		has = hasAll // what it says nothing of is not there
	} else {
		r = &authz.Request{Operation: authz.OperationCheck, Size: len(e.Input)}
		in.document = e.Input
		in.http, has = addFacts(r, e.Input)
		r.Source, r.Parts = in.whole, in.parts
	}
	r.ID, r.Time = e.DecisionID, e.Time
	return r, in, has, nil
}

// watched returns a request as it is, with a watch on what is asked for of its document.
func watched(r *authz.Request, in recordedInput, w *fieldUse) *authz.Request {
	in.watch = w
	return &authz.Request{
		ID: r.ID, Operation: r.Operation, Policy: r.Policy, Time: r.Time, Method: r.Method, Path: r.Path, Host: r.Host,
		Principal: r.Principal, Project: r.Project, Size: r.Size, Source: in.whole, Parts: in.parts,
	}
}

// addFacts sets what a request is grouped by and what may exempt it. It returns what stands at
// httpPath, and which of the fields the document has. One that is not for Envoy lacks none, and of it the usual names of
// a method and a path are taken.
func addFacts(r *authz.Request, d logreader.Document) (http logreader.Document, has fields) {
	var attributes logreader.Document
	for name, value := range d.Members() {
		switch string(name) {
		case "attributes":
			attributes = value
		case "parsed_path":
			has |= hasParsed
		case "parsed_query":
			has |= hasQuery
		}
	}
	if attributes.Kind() != '{' {
		r.Method, r.Path = d.At("method").Text(), pathOf(d.At("path"))
		r.Principal = first(d.At("user"), d.At("subject"), d.At("principal"))
		return nil, hasAll
	}
	for name, value := range attributes.Members() {
		switch string(name) {
		case "request":
			http = value.At("http")
			has |= addHTTP(r, http)
		case "source":
			r.Principal = value.At("principal").Text()
		case "contextExtensions":
			r.Policy = authz.PolicyID(value.At("policy").Text())
			r.Project = authz.Project{
				ID: value.At("project_id").Text(), Name: value.At("project_name").Text(), Domain: value.At("project_domain_name").Text(),
			}
		}
	}
	return http, has
}

// addHTTP takes what the HTTP request says.
func addHTTP(r *authz.Request, http logreader.Document) (has fields) {
	for name, value := range http.Members() {
		switch string(name) {
		case "method":
			r.Method = value.Text()
			has |= hasMethod
		case "path":
			r.Path = pathOf(value)
			has |= hasPath
		case "host":
			r.Host = value.Text()
		case "headers":
			has |= hasHeaders
		}
	}
	return has
}

// pathOf returns a path that is a text, or a list of segments as OPA's tutorials have it.
func pathOf(d logreader.Document) string {
	if d.Kind() == '[' {
		return "/" + strings.Join(d.Texts(), "/")
	}
	path, _, _ := strings.Cut(d.Text(), "?")
	return path
}

// first returns the text of the first document that is one.
func first(of ...logreader.Document) string {
	for _, d := range of {
		if text := d.Text(); text != "" {
			return text
		}
	}
	return ""
}

package extauthz

import (
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/authz"
	"understudy/rego"
)

// version is the value of input.version, by which a policy can tell the shape.
var version = map[string]any{"ext_authz": "v3", "encoding": "protojson"}

// wanted is what of a request is asked for besides what is cheap.
type wanted struct{ parsedBody, truncatedBody, body, rawBody bool }

// wantedOf returns what a read set asks for.
func wantedOf(reads *rego.Reads) wanted {
	http := reads.Child("attributes").Child("request").Child("http")
	return wanted{
		parsedBody:    reads.Child("parsed_body") != nil,
		truncatedBody: reads.Child("truncated_body") != nil,
		body:          http.Child("body") != nil,
		rawBody:       http.Child("rawBody") != nil,
	}
}

// Everything, and everything that costs little and always is there.
var (
	everything  = wantedOf(rego.ReadsEverything)
	withoutBody = wanted{body: true, rawBody: true}
)

// input makes the input document with what is wanted. The error is an *authz.BadRequest
// or that of the reading.
func (s *Server) input(reading *authz.Reading, check *authv3.CheckRequest, want wanted) (rego.Input, error) {
	document, err := s.document(reading, check, want)
	if err != nil {
		return rego.Input{}, err
	}
	// What is parsed is copied: that takes as long again.
	if err := reading.Err(); err != nil {
		return rego.Input{}, err
	}
	input, err := rego.NewInput(document)
	if err != nil {
		return rego.Input{}, errBodyValue
	}
	return input, nil
}

// errBodyValue: only a number in the body can be to blame, one that is out of all bounds.
var errBodyValue = badRequest("The body has a value that no policy can read.")

// document returns the input document in the types of encoding/json.
func (s *Server) document(reading *authz.Reading, check *authv3.CheckRequest, want wanted) (map[string]any, error) {
	attributes := check.GetAttributes()
	headers := headersOf(check)
	target := requestPath(attributes.GetRequest().GetHttp(), headers)
	path, err := parsePath(target)
	if err != nil {
		return nil, err
	}
	query, err := parseQuery(target)
	if err != nil {
		return nil, err
	}
	document := map[string]any{
		"attributes":   attributesOf(attributes, want),
		"version":      version,
		"parsed_path":  path,
		"parsed_query": query,
	}
	if principal := attributes.GetSource().GetPrincipal(); principal != "" {
		document["source_principal"] = principal
	}
	if !want.parsedBody && !want.truncatedBody {
		return document, nil
	}
	return document, s.addBody(reading, document, check, path, want)
}

// addBody adds what is said of the body.
func (s *Server) addBody(
	reading *authz.Reading, document map[string]any, check *authv3.CheckRequest, path []string, want wanted,
) error {
	http := check.GetAttributes().GetRequest().GetHttp()
	found, err := s.bodies.find(httpBody{http.GetBody(), string(http.GetRawBody())}, headersOf(check), path)
	if err != nil {
		return err
	}
	document["truncated_body"] = found.truncated
	if want.parsedBody {
		document["parsed_body"], err = found.value(reading)
	}
	return err
}

// decodedProjector makes the parts of the input document of a request that was decoded
// in full.
type decodedProjector struct {
	server *Server
	check  *authv3.CheckRequest
}

// Key is of authz.Projector. There is none: what is decoded in full is unusual, and its
// decisions are not cached.
func (decodedProjector) Key(_ *authz.ReadSet, b []byte) ([]byte, bool) { return b, false }

// Input is of authz.Projector.
func (p decodedProjector) Input(reading *authz.Reading, set *authz.ReadSet) (rego.Input, error) {
	return p.server.input(reading, p.check, wantedOf(set.Reads))
}

// badRequest is the error of what does not parse. The reason quotes nothing.
func badRequest(reason string) error { return &authz.BadRequest{Reason: reason} }

package extauthz

import (
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/authz"
	"understudy/rego"
)

// version is the value of input.version, by which a policy can tell the shape.
var version = map[string]any{"ext_authz": "v3", "encoding": "protojson"}

// input makes the input document. The error is an *authz.BadRequest.
func (s *Server) input(check *authv3.CheckRequest) (rego.Input, error) {
	document, err := s.document(check)
	if err != nil {
		return rego.Input{}, err
	}
	input, err := rego.NewInput(document)
	if err != nil {
		// Only a number in the body can be to blame, one that is out of all bounds.
		return rego.Input{}, badRequest("The body has a value that no policy can read.")
	}
	return input, nil
}

// document returns the input document in the types of encoding/json.
func (s *Server) document(check *authv3.CheckRequest) (map[string]any, error) {
	attributes := check.GetAttributes()
	http := attributes.GetRequest().GetHttp()
	headers := headersOf(check)
	target := requestPath(http, headers)
	path, err := parsePath(target)
	if err != nil {
		return nil, err
	}
	query, err := parseQuery(target)
	if err != nil {
		return nil, err
	}
	body, truncated, err := s.parseBody(http, headers, path)
	if err != nil {
		return nil, err
	}
	document := map[string]any{
		"attributes":     attributesOf(attributes),
		"version":        version,
		"parsed_path":    path,
		"parsed_query":   query,
		"parsed_body":    body,
		"truncated_body": truncated,
	}
	if principal := attributes.GetSource().GetPrincipal(); principal != "" {
		document["source_principal"] = principal
	}
	return document, nil
}

// badRequest is the error of what does not parse. The reason quotes nothing.
func badRequest(reason string) error { return &authz.BadRequest{Reason: reason} }

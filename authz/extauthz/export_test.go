package extauthz

import (
	"context"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/rego"
)

// CheckWire answers bytes as they come from the network.
func (s *Server) CheckWire(ctx context.Context, wire []byte) ([]byte, error) {
	out, err := s.checkEnvelope(ctx, &envelope{wire})
	if err != nil {
		return nil, err
	}
	return out.wire, nil
}

// Project returns what a view makes of a request for a read set: the input document
// and its key. It reports false if the view declines.
func (s *Server) Project(wire []byte, reads *rego.Reads) (input rego.Input, key string, ok bool, err error) {
	v, _ := newView(string(wire), &s.bodies)
	if v == nil {
		return rego.Input{}, "", false, nil
	}
	p := newPlan(reads).(*plan)
	value, err := p.value(v)
	return value.Input(), string(p.key(v, nil)), true, err
}

// Decoded returns the input document that the full decode makes for a read set.
func (s *Server) Decoded(check *authv3.CheckRequest, reads *rego.Reads) (rego.Input, error) {
	return s.input(nil, check, wantedOf(reads))
}

// Declined returns why a view does not read a request; empty if it does.
func Declined(wire []byte) string {
	_, why := newView(string(wire), nil)
	return why.String()
}

// BodyWeight returns the weight of a request's body, and the value that it is parsed to;
// false if it is not parsed.
func (s *Server) BodyWeight(check *authv3.CheckRequest) (weight int, value any, ok bool) {
	http := check.GetAttributes().GetRequest().GetHttp()
	headers := headersOf(check)
	path, err := parsePath(requestPath(http, headers))
	if err != nil {
		return 0, nil, false
	}
	found, err := s.bodies.find(httpBody{http.GetBody(), string(http.GetRawBody())}, headers, path)
	if err != nil || found.parse == nil {
		return 0, nil, false
	}
	value, err = found.parse(found.content)
	return found.weight(found.content), value, err == nil
}

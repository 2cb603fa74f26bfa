package extauthz

import (
	"context"

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
func Project(wire []byte, reads *rego.Reads) (input rego.Input, key string, ok bool, err error) {
	v, _ := newView(string(wire))
	if v == nil {
		return rego.Input{}, "", false, nil
	}
	p := newPlan(reads).(*plan)
	value, err := p.value(v)
	return value.Input(), string(p.key(v, nil)), true, err
}

// Declined returns why a view does not read a request; empty if it does.
func Declined(wire []byte) string {
	_, why := newView(string(wire))
	return why.String()
}

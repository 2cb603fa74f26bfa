package extauthz

import "context"

// CheckWire answers bytes as they come from the network.
func (s *Server) CheckWire(ctx context.Context, wire []byte) ([]byte, error) {
	out, err := s.checkEnvelope(ctx, &envelope{wire})
	if err != nil {
		return nil, err
	}
	return out.wire, nil
}

package credentials

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

var _ credentials.PerRPCCredentials = Token{}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (t Token) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	value, err := t.Bearer(ctx)
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	return map[string]string{"authorization": "Bearer " + value}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. Read has checked where
// the token goes to: gRPC would refuse this machine too.
func (Token) RequireTransportSecurity() bool { return false }

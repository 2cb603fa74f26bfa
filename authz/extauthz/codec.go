package extauthz

import (
	"context"
	"fmt"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// envelope is a message as it stands on the wire. In it requests come to the handler
// and responses leave it, so that neither is decoded where nobody needs it.
type envelope struct{ wire []byte }

// codec hands envelopes over as they are, and all other messages to the codec of
// protos. gRPC has one codec for a whole server, so it has to serve the health service
// and reflection as well.
type codec struct{ encoding.CodecV2 }

// ServerOption makes a gRPC server hand checks over without decoding them. A server
// that has Register called on it needs it; its other services do not notice.
func ServerOption() grpc.ServerOption {
	return grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(protocodec.Name)})
}

// Marshal is of encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*envelope); ok {
		return mem.BufferSlice{mem.SliceBuffer(f.wire)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal is of encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*envelope)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	// The buffers are the transport's again after this; the copy is the request's.
	f.wire = data.Materialize()
	return nil
}

// Register registers a Server on a gRPC server that was made with ServerOption.
func Register(registrar grpc.ServiceRegistrar, s *Server) {
	registrar.RegisterService(&serviceDesc, s)
}

// serviceDesc is envoy.service.auth.v3.Authorization with envelopes for messages.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: authv3.Authorization_ServiceDesc.ServiceName,
	HandlerType: (*authv3.AuthorizationServer)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Check", Handler: handleCheck}},
	Metadata:    authv3.Authorization_ServiceDesc.Metadata,
}

// handleCheck is what protoc-gen-go-grpc generates for a method, with envelopes.
// Interceptors see an envelope as the request; none of ours looks into it.
//
//nolint:revive // the order of the parameters is gRPC's
func handleCheck(
	server any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor,
) (any, error) {
	in := &envelope{}
	if err := decode(in); err != nil {
		return nil, fmt.Errorf("reading a check: %w", err)
	}
	check := func(ctx context.Context, request any) (any, error) {
		return server.(*Server).checkEnvelope(ctx, request.(*envelope))
	}
	if interceptor == nil {
		return check(ctx, in)
	}
	info := &grpc.UnaryServerInfo{Server: server, FullMethod: authv3.Authorization_Check_FullMethodName}
	return interceptor(ctx, in, info, check)
}

package admin

import (
	"context"
	"net/http"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	adminpb "understudy/admin/v1"
)

// newGRPC serves the API to gRPC clients, with health and reflection.
func (s *Server) newGRPC() *grpc.Server {
	rpc := grpc.NewServer(grpc.MaxRecvMsgSize(s.maxBody()),
		grpc.ChainUnaryInterceptor(refuseUnary, s.recoverRPC), grpc.StreamInterceptor(refuseStream))
	adminpb.RegisterPolicyPreviewServer(rpc, s)
	longrunningpb.RegisterOperationsServer(rpc, s)
	grpc_health_v1.RegisterHealthServer(rpc, namedHealth{s.health})
	reflection.Register(rpc)
	for name := range rpc.GetServiceInfo() {
		s.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	return rpc
}

// refusal is the key of the error by which a call is refused before it is looked at.
type refusal struct{}

// guardedRPC holds calls of gRPC to the rule about pages of strangers that REST is held
// to. The call is refused by gRPC, which knows how errors are sent.
func (s *Server) guardedRPC(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.checkCaller(r); err != nil {
			r = r.WithContext(context.WithValue(r.Context(), refusal{}, err))
		}
		next.ServeHTTP(w, r)
	})
}

// refusedCall returns the error by which a call is refused, if it is.
func refusedCall(ctx context.Context) error {
	err, _ := ctx.Value(refusal{}).(error)
	return err
}

func refuseUnary(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := refusedCall(ctx); err != nil {
		return nil, err
	}
	return handle(ctx, r)
}

func refuseStream(s any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := refusedCall(stream.Context()); err != nil {
		return err
	}
	return handle(s, stream)
}

// namedHealth is the health service, whose NOT_FOUND names the service that was asked
// for: all errors of the port have their details.
type namedHealth struct{ *health.Server }

// Check implements grpc.health.v1.Health.
func (h namedHealth) Check(
	ctx context.Context, r *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	response, err := h.Server.Check(ctx, r)
	if status.Code(err) == codes.NotFound {
		return nil, unknownService(r.GetService())
	}
	return response, err
}

// Drain makes the health service answer NOT_SERVING from now on, so that clients
// go elsewhere before the server closes.
func (s *Server) Drain() { s.health.Shutdown() }

func newHealth() *health.Server { return health.NewServer() }

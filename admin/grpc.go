package admin

import (
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	adminpb "understudy/admin/v1"
)

// newGRPC serves the API to gRPC clients, with health and reflection.
func (s *Server) newGRPC() *grpc.Server {
	rpc := grpc.NewServer(grpc.MaxRecvMsgSize(s.maxBody()), grpc.UnaryInterceptor(s.recoverRPC))
	adminpb.RegisterPolicyPreviewServer(rpc, s)
	longrunningpb.RegisterOperationsServer(rpc, s)
	grpc_health_v1.RegisterHealthServer(rpc, s.health)
	reflection.Register(rpc)
	return rpc
}

// Drain makes the health service answer NOT_SERVING from now on, so that clients
// go elsewhere before the server closes.
func (s *Server) Drain() { s.health.Shutdown() }

func newHealth() *health.Server { return health.NewServer() }

package rest

import (
	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
)

// messageRoom is for what is next to a document in its message, in bytes.
const messageRoom = 64 << 10

// newGRPC serves the API to gRPC clients, with health and reflection.
func (a *API) newGRPC() *grpc.Server {
	rpc := grpc.NewServer(grpc.MaxRecvMsgSize(max(a.maxBody, a.maxDocument+messageRoom)), grpc.UnaryInterceptor(a.chain.intercept))
	a.register(rpc)
	grpc_health_v1.RegisterHealthServer(rpc, namedHealth{a.health})
	reflection.Register(rpc)
	for name := range rpc.GetServiceInfo() {
		a.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	return rpc
}

// register registers the services that the chain is before.
func (a *API) register(to grpc.ServiceRegistrar) {
	adminpb.RegisterPolicyPreviewServer(to, a.services)
	adminpb.RegisterDatasetsServer(to, a.services)
	longrunningpb.RegisterOperationsServer(to, a.services)
	iampb.RegisterIAMPolicyServer(to, a.iam)
}

// sizeOf is the size of a message, in bytes.
func sizeOf(v any) int {
	m, ok := v.(proto.Message)
	if !ok {
		return 0
	}
	return proto.Size(m)
}

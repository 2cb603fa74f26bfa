package rest

import (
	"context"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"

	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
	"understudy/authz/background"
	"understudy/authz/diagnostics"
)

// newGRPC serves the API to gRPC clients, with health and reflection.
func (a *API) newGRPC() *grpc.Server {
	rpc := grpc.NewServer(grpc.MaxRecvMsgSize(a.maxBody),
		grpc.UnaryInterceptor(a.recoverRPC))
	adminpb.RegisterPolicyPreviewServer(rpc, a.services)
	longrunningpb.RegisterOperationsServer(rpc, a.services)
	iampb.RegisterIAMPolicyServer(rpc, a.iam)
	grpc_health_v1.RegisterHealthServer(rpc, namedHealth{a.health})
	reflection.Register(rpc)
	for name := range rpc.GetServiceInfo() {
		a.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	return rpc
}

// recoverRPC is recovered for calls of gRPC, which run in threads of their own. It also sees to it that every error has its
// ErrorInfo.
func (a *API) recoverRPC(
	ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (response any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			a.panics.Report(ctx, diagnostics.PanicAPI, cause)
			err = apierror.Internal()
		}
	}()
	background.Call(ctx, sizeOf(r), func(ctx context.Context) { response, err = handle(ctx, r) })
	return response, withInfo(err)
}

// sizeOf is the size of a message, in bytes.
func sizeOf(v any) int {
	m, ok := v.(proto.Message)
	if !ok {
		return 0
	}
	return proto.Size(m)
}

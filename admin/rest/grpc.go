package rest

import (
	"context"
	"fmt"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
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

// unknownService is NOT_FOUND of a service whose health was asked for, as the protocol of
// gRPC's health checks has it.
func unknownService(name string) error {
	name = apierror.Shown(name)
	return apierror.New(codes.NotFound, apierror.ReasonNotFound,
		fmt.Sprintf("The server has no service '%s'. An empty name asks for the server itself.", name),
		apierror.Facts{"resource": name}, &errdetails.ResourceInfo{ResourceType: "service", ResourceName: name})
}

// Drain makes the health service answer NOT_SERVING from now on, so that clients
// go elsewhere before the server closes.
func (a *API) Drain() { a.health.Shutdown() }

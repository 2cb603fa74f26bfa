package rest

import (
	"context"
	"fmt"
	"net/http"

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
		grpc.ChainUnaryInterceptor(refuseUnary, a.recoverRPC), grpc.StreamInterceptor(refuseStream))
	adminpb.RegisterPolicyPreviewServer(rpc, a.services)
	longrunningpb.RegisterOperationsServer(rpc, a.services)
	grpc_health_v1.RegisterHealthServer(rpc, namedHealth{a.health})
	reflection.Register(rpc)
	for name := range rpc.GetServiceInfo() {
		a.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	return rpc
}

// recoverRPC is recoverREST for gRPC. It also sees to it that every error has its
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

// refusal is the key of the error by which a call is refused before it is looked at.
type refusal struct{}

// guardedRPC holds calls of gRPC to the rule about pages of other sites that REST is
// held to. The call is refused by gRPC, which knows how errors are sent; one that is not
// refused goes to next.
func (a *API) guardedRPC(rpc, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.guard.checkCaller(r); err != nil {
			rpc.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), refusal{}, err)))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refusedCall returns the error by which a call is refused, if it is.
func refusedCall(ctx context.Context) error {
	err, _ := ctx.Value(refusal{}).(error)
	return err
}

// refuseUnary returns the refusal of guardedRPC before anything else of the call is run.
func refuseUnary(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := refusedCall(ctx); err != nil {
		return nil, err
	}
	return handle(ctx, r)
}

// refuseStream is refuseUnary of the streams: health and reflection.
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

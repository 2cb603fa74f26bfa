package rest

import (
	"context"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	adminpb "understudy/admin/v1"
)

// Client calls the services in this process, in the name of the principal of the context. Its
// calls pass the same chain as those of REST and gRPC: permissions are checked, and changes are
// recorded. It is safe for concurrent use.
type Client struct {
	adminpb.PolicyPreviewClient
	adminpb.DatasetsClient
	longrunningpb.OperationsClient

	chain *chain
}

// Client returns a client of the services.
func (a *API) Client() *Client {
	return &Client{adminpb.NewPolicyPreviewClient(a.local), adminpb.NewDatasetsClient(a.local), longrunningpb.NewOperationsClient(a.local), a.chain}
}

// Method is the full name of a method, as gRPC writes it: /understudy.admin.v1.PolicyPreview/GetPolicy.
type Method string

// Authorize returns the error of a caller who may not call a method on a resource.
func (c *Client) Authorize(ctx context.Context, method Method, resource string) error {
	_, err := c.chain.authorize(ctx, string(method), resource)
	return err
}

// local is a connection of gRPC to the services in this process. Calls pass the chain, but no
// message is marshalled: a list of 16 MiB takes as long as a call of the function. The context
// is the caller's, and metadata goes neither way.
type local struct {
	chain *chain
	// methods :: full name → how it is called.
	methods map[string]localMethod
}

// localMethod is a method as generated code describes it, and the service that has it.
type localMethod struct {
	handle  grpc.MethodHandler
	service any
}

// RegisterService implements [grpc.ServiceRegistrar].
func (l *local) RegisterService(d *grpc.ServiceDesc, service any) {
	for _, m := range d.Methods {
		l.methods["/"+d.ServiceName+"/"+m.MethodName] = localMethod{m.Handler, service}
	}
}

// Invoke implements [grpc.ClientConnInterface].
func (l *local) Invoke(ctx context.Context, method string, request, answer any, _ ...grpc.CallOption) error {
	m, found := l.methods[method]
	if !found {
		return status.Errorf(codes.Unimplemented, "there is no method %s", method)
	}
	// A handler decodes into a request of its own. The caller's takes its place here.
	given := func(ctx context.Context, _ any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		return l.chain.intercept(ctx, request, info, handle)
	}
	got, err := m.handle(m.service, ctx, func(any) error { return nil }, given)
	if err != nil {
		return err
	}
	share(answer.(proto.Message), got.(proto.Message))
	return nil
}

// NewStream implements [grpc.ClientConnInterface]. The services have no streams.
func (l *local) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "there are no streams")
}

// share sets an empty message to another one. What is in them is in both, and not copied.
func share(empty, other proto.Message) {
	to, from := empty.ProtoReflect(), other.ProtoReflect()
	from.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(f, v)
		return true
	})
	to.SetUnknown(from.GetUnknown())
}

package rest

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/audit"
	"understudy/authz/diagnostics"
)

// chain is what every call of the services passes, by REST, by gRPC or from the page. The table
// of [access.Need] says what each method needs and whether it is audited, so a new method is one
// row there. Who calls is in the context already: see admitted.
type chain struct {
	// authorizer is nil if everybody may everything.
	authorizer access.Authorizer
	audit      *audit.Recorder
	panics     *diagnostics.Panics
}

// intercept is the whole chain as one interceptor.
func (c *chain) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if _, open := info.Server.(namedHealth); open {
		return c.recovered(ctx, request, info, handle) // it says nothing that needs a permission
	}
	for _, step := range slices.Backward([]grpc.UnaryServerInterceptor{c.recovered, c.recorded, c.authorized}) {
		next := handle
		handle = func(ctx context.Context, request any) (any, error) { return step(ctx, request, info, next) }
	}
	return handle(ctx, request)
}

// recovered turns a panic into an error that says nothing about it, and sees to it that every
// error has its ErrorInfo.
func (c *chain) recovered(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			c.panics.Report(ctx, diagnostics.PanicAPI, cause)
			answer, err = nil, apierror.Internal()
		}
	}()
	answer, err = next(ctx, request)
	return answer, withInfo(err)
}

// recorded writes the event of a call that is audited, with the entry that REST has begun, or
// one of its own. It stands before the check of permissions: what is refused is recorded, too.
func (c *chain) recorded(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any, err error) {
	need, _ := access.NeedOf(info.FullMethod)
	if c.audit == nil || !need.Audited {
		return next(ctx, request)
	}
	entry := audit.FromContext(ctx)
	if entry == nil {
		ctx, entry = c.audit.Begin(ctx, audit.Call{Method: strings.TrimPrefix(info.FullMethod, "/")})
	}
	entry.Resource(changedBy(request, need))
	if v, ok := request.(interface{ GetValidateOnly() bool }); ok && v.GetValidateOnly() {
		entry.ValidateOnly()
	}
	err = apierror.Internal() // so a panic ends
	defer func() { entry.End(err) }()
	answer, err = next(ctx, request)
	return answer, err
}

// authorized lets only those calls pass that their callers may make: permission comes before
// existence and before validation (AIP-211).
func (c *chain) authorized(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	need, _ := access.NeedOf(info.FullMethod)
	ctx, err := c.authorize(ctx, info.FullMethod, textAt(request, need.Field))
	if err != nil {
		return nil, err
	}
	return next(ctx, request)
}

// grant is a permission on a resource that the caller of a context was found to have.
type grant struct {
	permission access.Permission
	resource   string
}

// grantKey is the key of the grant in a context.
type grantKey struct{}

// authorize returns a context in which it is known that the caller may call a method on a
// resource, or the error if that is not so. What is known already, of the same permission and
// the same resource, is not looked for again: REST asks before it reads a body.
func (c *chain) authorize(ctx context.Context, method, resource string) (context.Context, error) {
	need, known := access.NeedOf(method)
	if !known {
		return ctx, apierror.Unimplemented("The method")
	}
	needed := grant{need.On(resource), resource}
	if c.authorizer == nil || needed.permission == "" || ctx.Value(grantKey{}) == needed {
		return ctx, nil
	}
	if err := c.authorizer.Authorize(ctx, needed.permission, resource); err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, grantKey{}, needed), nil
}

// changedBy is the name of what a call changes: the resource that its permission is on, or what
// is to be created below that.
func changedBy(request any, need access.Need) string {
	name := textAt(request, need.Field)
	if collection, id, creates := strings.Cut(need.Creates, "/"); creates {
		name += "/" + collection + "/" + textAt(request, id)
	}
	return name
}

// textAt returns the text that a path of fields of a request leads to; empty if it is not there.
func textAt(request any, path string) string {
	m, ok := request.(proto.Message)
	if !ok {
		return ""
	}
	at := m.ProtoReflect()
	for {
		name, rest, deeper := strings.Cut(path, ".")
		field := at.Descriptor().Fields().ByName(protoreflect.Name(name))
		if field == nil {
			return ""
		}
		if !deeper {
			return at.Get(field).String()
		}
		at, path = at.Get(field).Message(), rest
	}
}

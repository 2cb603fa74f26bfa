package port

import (
	"container/list"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"

	"understudy/authz/diagnostics"
)

// mostUnfinished bounds the unfinished calls of a port. Each takes about 16 KiB, and anyone who reaches the port can
// open any number.
const mostUnfinished = 4096

// UnfinishedCalls bounds the calls of a gRPC server whose message has not arrived: when there are too many, the one
// that has waited longest is ended. It does not concern a client that sends the message together with the call, as
// Envoy does. A stream, such as a watch of the health service, is unfinished as long as it lasts. It is safe for
// concurrent use.
//
// A call that begins while less than half of the bound is unfinished is only counted and cannot be ended, because a
// context of its own would cost each check several percent.
type UnfinishedCalls struct {
	// most is the bound.
	most int64
	// count is the number of unfinished calls.
	count atomic.Int64
	warn  *diagnostics.LimitedLog

	mu sync.Mutex
	// endable are calls that can be ended, those that have waited longest first.
	endable list.List
	// endables is the length of endable, to be read without the mutex.
	endables atomic.Int64
}

// endableCall is an unfinished call that can be ended.
type endableCall struct {
	end context.CancelFunc
	// position is that in the list. It is nil when the call has left the list.
	position *list.Element
}

// endableKey is the key of a call's endableCall in its context.
type endableKey struct{}

// NewUnfinishedCalls returns a bound that has no calls yet. It logs once a minute that it ends calls.
func NewUnfinishedCalls(log *slog.Logger) *UnfinishedCalls {
	return &UnfinishedCalls{most: mostUnfinished, warn: diagnostics.NewLimitedLog(log, 1, time.Minute)}
}

// Option makes a server report each call that begins. Its services have to be registered with [UnfinishedCalls.Server].
func (u *UnfinishedCalls) Option() grpc.ServerOption { return grpc.InTapHandle(u.begin) }

// Server returns a server that registers services so that their calls are counted.
func (u *UnfinishedCalls) Server(s *grpc.Server) CountingServer { return CountingServer{s, u} }

// CountingServer is a gRPC server whose services are counted.
type CountingServer struct {
	*grpc.Server
	calls *UnfinishedCalls
}

// RegisterService implements grpc.ServiceRegistrar.
func (s CountingServer) RegisterService(service *grpc.ServiceDesc, implementation any) {
	counted := *service
	counted.Methods, counted.Streams = slices.Clone(service.Methods), slices.Clone(service.Streams)
	for i, m := range counted.Methods {
		counted.Methods[i].Handler = s.calls.method(m.Handler)
	}
	for i, stream := range counted.Streams {
		counted.Streams[i].Handler = s.calls.stream(stream.Handler)
	}
	s.Server.RegisterService(&counted, implementation)
}

// method counts a call until its message has arrived.
func (u *UnfinishedCalls) method(handle grpc.MethodHandler) grpc.MethodHandler {
	return func(server any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // the order of the parameters is gRPC's
		return handle(server, ctx, func(message any) error {
			u.count.Add(1)
			err := decode(message)
			u.finish(ctx)
			return err
		}, interceptor)
	}
}

// stream counts a call as long as it lasts.
func (u *UnfinishedCalls) stream(handle grpc.StreamHandler) grpc.StreamHandler {
	return func(server any, stream grpc.ServerStream) error {
		u.count.Add(1)
		defer u.finish(stream.Context())
		return handle(server, stream)
	}
}

// finish says that a call is no longer unfinished.
func (u *UnfinishedCalls) finish(ctx context.Context) {
	u.count.Add(-1)
	if u.endables.Load() == 0 {
		return
	}
	if c, ok := ctx.Value(endableKey{}).(*endableCall); ok {
		u.mu.Lock()
		u.remove(c)
		u.mu.Unlock()
	}
}

// begin returns the context of a call that begins: the given one, or one that can be ended.
func (u *UnfinishedCalls) begin(ctx context.Context, _ *tap.Info) (context.Context, error) {
	if u.count.Load() < u.most/2 {
		return ctx, nil
	}
	c := &endableCall{}
	ctx, c.end = context.WithCancel(context.WithValue(ctx, endableKey{}, c))
	u.mu.Lock()
	defer u.mu.Unlock()
	c.position = u.endable.PushBack(c)
	if u.endables.Add(1) > u.most/2 {
		u.endOldest()
	}
	// A call that no service has ends without being finished.
	context.AfterFunc(ctx, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.remove(c)
	})
	return ctx, nil
}

// endOldest ends the call that has waited longest. The mutex is held.
func (u *UnfinishedCalls) endOldest() {
	oldest := u.endable.Front().Value.(*endableCall)
	u.remove(oldest)
	oldest.end()
	u.warn.Log(context.Background(), slog.LevelWarn, "too many calls whose message has not arrived: those that have waited longest are ended",
		slog.Int64("bound", u.most))
}

// remove takes a call out of the list, if it is still there. The mutex is held.
func (u *UnfinishedCalls) remove(c *endableCall) {
	if c.position != nil {
		u.endable.Remove(c.position)
		u.endables.Add(-1)
		c.position = nil
	}
}

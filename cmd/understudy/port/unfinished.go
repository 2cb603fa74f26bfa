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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
// The first half of them cannot be ended, because a context of its own would cost each check several percent. Such a
// call is refused where so many have begun at the same moment that there is no room for it any more.
type UnfinishedCalls struct {
	// half is half of the bound: as many calls can be ended, and as many cannot.
	half int64
	// plain is the number of unfinished calls that cannot be ended.
	plain atomic.Int64
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
	return &UnfinishedCalls{half: mostUnfinished / 2, warn: diagnostics.NewLimitedLog(log, 1, time.Minute)}
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
	return func(server any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		return handle(server, ctx, func(message any) error {
			c, err := u.enter(ctx)
			if err != nil {
				return err
			}
			err = decode(message)
			u.leave(c)
			return err
		}, interceptor)
	}
}

// stream counts a call as long as it lasts.
func (u *UnfinishedCalls) stream(handle grpc.StreamHandler) grpc.StreamHandler {
	return func(server any, stream grpc.ServerStream) error {
		c, err := u.enter(stream.Context())
		if err != nil {
			return err
		}
		defer u.leave(c)
		return handle(server, stream)
	}
}

// enter counts an unfinished call. It returns nil for a call that cannot be ended, and an error if there is no room for
// the call.
func (u *UnfinishedCalls) enter(ctx context.Context) (*endableCall, error) {
	if u.endables.Load() > 0 {
		if c, ok := ctx.Value(endableKey{}).(*endableCall); ok {
			return c, nil
		}
	}
	if u.plain.Add(1) > u.half {
		u.plain.Add(-1)
		u.log("too many calls whose message has not arrived: one is refused")
		return nil, status.Error(codes.ResourceExhausted, "too many calls are waiting for their message: send it together with the call")
	}
	return nil, nil
}

// leave says that a call is no longer unfinished.
func (u *UnfinishedCalls) leave(c *endableCall) {
	if c == nil {
		u.plain.Add(-1)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.remove(c)
}

// begin returns the context of a call that begins: the given one, or one that can be ended.
func (u *UnfinishedCalls) begin(ctx context.Context, _ *tap.Info) (context.Context, error) {
	if u.plain.Load() < u.half {
		return ctx, nil
	}
	c := &endableCall{}
	ctx, c.end = context.WithCancel(context.WithValue(ctx, endableKey{}, c))
	u.mu.Lock()
	defer u.mu.Unlock()
	c.position = u.endable.PushBack(c)
	if u.endables.Add(1) > u.half {
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
	u.log("too many calls whose message has not arrived: those that have waited longest are ended")
}

func (u *UnfinishedCalls) log(text string) {
	u.warn.Log(context.Background(), slog.LevelWarn, text, slog.Int64("bound", 2*u.half))
}

// remove takes a call out of the list, if it is still there. The mutex is held.
func (u *UnfinishedCalls) remove(c *endableCall) {
	if c.position != nil {
		u.endable.Remove(c.position)
		u.endables.Add(-1)
		c.position = nil
	}
}

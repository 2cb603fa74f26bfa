package port

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"
)

const (
	// unfinishedCalls bounds the calls whose message has not come whole, and conversations those that
	// send messages as long as they last, such as gRPC's reflection. Each takes 16 KiB and what has
	// come of its message.
	unfinishedCalls = 4096
	conversations   = 64
	// messageTime is how long a message may take to come.
	messageTime = 10 * time.Second
)

// Unfinished bounds what calls of a gRPC server cost that were begun and never sent to their end, on
// all connections together. Where there are too many, the oldest ends, of the address that has the
// most of them. It is safe for concurrent use.
type Unfinished struct {
	calls, conversations *slots
}

// NewUnfinished makes the bounds of a port, with its metric.
func NewUnfinished(port string, provider metric.MeterProvider) (*Unfinished, error) {
	u := &Unfinished{newSlots(unfinishedCalls, unfinishedCalls), newSlots(conversations, conversations)}
	_, err := provider.Meter("understudy/port").Int64ObservableCounter("understudy.unfinished_calls.ended",
		metric.WithDescription("Calls whose messages had not come whole, and that were ended to make room for others, by port."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			_, calls := u.calls.numbers()
			_, conversations := u.conversations.numbers()
			o.Observe(calls+conversations, metric.WithAttributes(attribute.String("port", port)))
			return nil
		}))
	if err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	return u, nil
}

// Options are what a server of gRPC is made with to have the bounds.
func (u *Unfinished) Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.InTapHandle(u.begin), grpc.ChainUnaryInterceptor(finishCall), grpc.ChainStreamInterceptor(u.converse),
	}
}

// unfinishedCall is the context of a call whose message has not come whole.
type unfinishedCall struct {
	context.Context
	unfinished *Unfinished
	of         netip.Prefix
	slot       *slot
	end        context.CancelFunc
	// late ends the call, and over gives its slot back if it ends in another way.
	late *time.Timer
	over func() bool
}

// unfinishedKey is the key of an *unfinishedCall in a context.
type unfinishedKey struct{}

// Value implements context.Context.
func (c *unfinishedCall) Value(key any) any {
	if key == (unfinishedKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// begin takes a slot for a call, when its headers have come.
func (u *Unfinished) begin(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, end := context.WithCancel(ctx)
	c := &unfinishedCall{Context: ctx, unfinished: u, end: end}
	if p, known := peer.FromContext(ctx); known {
		c.of = prefixOf(p.Addr)
	}
	c.slot = u.calls.enter(c.of, 1, end)
	c.late = time.AfterFunc(messageTime, end)
	c.over = context.AfterFunc(ctx, c.leave)
	return c, nil
}

// leave gives the slot back.
func (c *unfinishedCall) leave() {
	c.late.Stop()
	c.unfinished.calls.leave(c.slot)
}

// finish gives the slot back, as the message is here.
func (c *unfinishedCall) finish() {
	if c.over() {
		c.leave()
	}
}

// finishCall calls a handler, which has the message.
func finishCall(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if c, bounded := ctx.Value(unfinishedKey{}).(*unfinishedCall); bounded {
		c.finish()
	}
	return handler(ctx, request)
}

// converse calls the handler of a conversation.
func (u *Unfinished) converse(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if c, bounded := stream.Context().Value(unfinishedKey{}).(*unfinishedCall); bounded {
		c.finish()
		slot := u.conversations.enter(c.of, 1, c.end)
		defer u.conversations.leave(slot)
	}
	return handler(server, stream)
}

// prefixOf is whom a peer is counted as.
func prefixOf(peer net.Addr) netip.Prefix {
	if tcp, ok := peer.(*net.TCPAddr); ok {
		return counted(tcp.AddrPort().Addr())
	}
	return netip.Prefix{}
}

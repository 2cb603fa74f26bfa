package port

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// What all callers together may take whom a server does not know, and one address of them. Each
// number is above what logins and probes need, and all of them together cost some megabytes.
const (
	unknownCalls, unknownCallsOfAddress             = 64, 8
	unknownConnections, unknownConnectionsOfAddress = 256, 32
	// unknownBytes have come on connections and are no call yet: headers that are not complete,
	// and what HTTP/2 has next to calls. net/http needs many times as much for short headers.
	unknownBytes, unknownBytesOfAddress = 1 << 20, 512 << 10
	// unknownSize is what one call may send next to its headers, in bytes, and unknownTime how
	// long it may take: a login sends a token, and a probe the name of a service.
	unknownSize = 4 << 10
	unknownTime = time.Second
	// unknownAnswerTime is how long the rest of a call may take. It is longer than an issuer of
	// tokens may take to be asked.
	unknownAnswerTime = 30 * time.Second
)

// What one connection of HTTP/2 may take before anybody on it is known, and after that.
const (
	// maxStreams bounds the calls that are under way on it. Each has a goroutine before
	// anything here sees it.
	maxStreams = 16
	// maxFrame and maxUnread bound a frame and what of a body nobody has read yet, in bytes.
	// The memory for a frame is there before the frame is.
	maxFrame  = 16 << 10
	maxUnread = 128 << 10
)

// Unknown bounds what a server spends on callers that are not known. A call begins as one of
// somebody unknown, whatever its path is, and has a slot among few; so have connections, and what
// has come on them and is no call yet. New connections are let in at a bounded rate, unless a caller
// of their address was known lately. Where there is no more, the oldest ends, of the address that
// has the most. [access.Known] takes a call and its connection out of these bounds: where nobody
// calls it they stay within, so that no path can be left out.
//
// A call that loses its slot ends with its connection, unless somebody was known on that.
//
// It is safe for concurrent use.
type Unknown struct {
	calls, connections, bytes *slots
	turns                     turns
	arrivals                  *arrivals
}

// NewUnknown makes the bounds of a port, with its metrics.
func NewUnknown(port string, provider metric.MeterProvider) (*Unknown, error) {
	u := &Unknown{
		calls:       newSlots(unknownCalls, unknownCallsOfAddress),
		connections: newSlots(unknownConnections, unknownConnectionsOfAddress),
		bytes:       newSlots(unknownBytes, unknownBytesOfAddress),
		turns:       make(turns, 1),
		arrivals:    newArrivals(),
	}
	if err := u.observe(port, provider.Meter("understudy/port")); err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	return u, nil
}

// observe makes the metrics.
func (u *Unknown) observe(port string, meter metric.Meter) error {
	taken, err := meter.Int64ObservableGauge("understudy.unknown_callers",
		metric.WithDescription("What callers have that are not known, by port and kind: calls, connections, bytes that are no call yet, and connections that are waiting to be let in."))
	if err != nil {
		return err
	}
	lost, err := meter.Int64ObservableCounter("understudy.unknown_callers.ended",
		metric.WithDescription("Calls and connections of unknown callers that were ended to make room for others, by port and by the kind of which there was too much."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for kind, p := range map[string]interface{ numbers() (int, int64) }{
			"calls": u.calls, "connections": u.connections, "bytes": u.bytes, "waiting": u.arrivals,
		} {
			labels := metric.WithAttributes(attribute.String("port", port), attribute.String("kind", kind))
			nowTaken, nowLost := p.numbers()
			o.ObserveInt64(taken, int64(nowTaken), labels)
			o.ObserveInt64(lost, nowLost, labels)
		}
		return nil
	}, taken, lost)
	return err
}

// Bound puts the bounds on a server that does not serve yet. It has to serve on the listener that
// is returned.
func (u *Unknown) Bound(s *http.Server, l net.Listener) net.Listener {
	s.Handler = u.handler(s.Handler)
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, connectionOf(c))
	}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateActive:
			u.turns.take(connectionOf(c))
		case http.StateIdle:
			connectionOf(c).endTurn()
		}
	}
	s.HTTP2.MaxConcurrentStreams = maxStreams
	s.HTTP2.MaxReadFrameSize, s.HTTP2.MaxReceiveBufferPerStream = maxFrame, maxUnread
	return newUnknownListener(l, u)
}

// handler bounds the calls of next.
func (u *Unknown) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, r := u.begin(w, r)
		defer c.over()
		answer := &unknownAnswer{ResponseWriter: w, call: c}
		next.ServeHTTP(answer, r)
		answer.finish()
	})
}

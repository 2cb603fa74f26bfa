package port

import (
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Connections bounds what a client may do with a connection to the ext_authz port.
type Connections struct {
	// MaxAge is after how long a connection is closed politely. Zero means never:
	// Envoy keeps one for days, and that is well where it asks its own sidecar.
	MaxAge time.Duration
	// maxAgeGrace is how long the checks of such a connection may still take.
	maxAgeGrace time.Duration
	// keepaliveTime is after what silence a client is asked whether it lives, and
	// keepaliveTimeout how long it may take to say so. gRPC's own two hours would keep
	// what a vanished client has left for as long.
	keepaliveTime    time.Duration
	keepaliveTimeout time.Duration
	// MaxMessage bounds a CheckRequest, in bytes. Envoy sends at most the body that it
	// is configured to buffer.
	MaxMessage int
	// maxStreams bounds the checks under way on one connection, and with maxMessage the
	// memory that one client can claim. Envoy opens another connection when it needs
	// more; a check takes well under a millisecond.
	maxStreams uint32
}

// DefaultConnections are the defaults of the flags.
var DefaultConnections = Connections{
	maxAgeGrace:      10 * time.Second,
	keepaliveTime:    time.Minute,
	keepaliveTimeout: 20 * time.Second,
	MaxMessage:       16 << 20,
	maxStreams:       1000,
}

// Bind declares the flags.
//
// Only the gRPC port has these flags. The other ports are asked by few clients, or by
// short calls.
func (c *Connections) Bind(f *pflag.FlagSet) {
	*c = DefaultConnections
	f.DurationVar(&c.MaxAge, "authz-max-connection-age", c.MaxAge, "after how long a connection of Envoy's is closed politely, so that it spreads over new sidecars or meets new certificates; 0s is never")
	f.DurationVar(&c.maxAgeGrace, "authz-max-connection-age-grace", c.maxAgeGrace, "how long checks may still take on such a connection")
	f.DurationVar(&c.keepaliveTime, "authz-keepalive-time", c.keepaliveTime, "after what silence a client is asked whether it lives")
	f.DurationVar(&c.keepaliveTimeout, "authz-keepalive-timeout", c.keepaliveTimeout, "how long a client may take to say that it lives")
	f.IntVar(&c.MaxMessage, "authz-max-message-size", c.MaxMessage, "the largest CheckRequest, in bytes")
	f.Uint32Var(&c.maxStreams, "authz-max-concurrent-streams", c.maxStreams, "the checks that may be under way on one connection")
}

// Validate calls check with each rule and whether it is kept.
func (c Connections) Validate(check func(ok bool, flag, rule string)) {
	check(c.MaxAge >= 0, "authz-max-connection-age", "it is a duration such as 1h, or 0s for no limit")
	check(c.maxAgeGrace > 0, "authz-max-connection-age-grace", "it is a duration above zero, such as 10s")
	check(c.keepaliveTime >= time.Second, "authz-keepalive-time", "it is a duration from 1s")
	check(c.keepaliveTimeout > 0, "authz-keepalive-timeout", "it is a duration above zero, such as 20s")
	check(c.MaxMessage > 0, "authz-max-message-size", "it is a number of bytes above zero, such as 16777216")
	check(c.maxStreams > 0, "authz-max-concurrent-streams", "it is a number above zero, such as 1000")
}

// streamWorkers is how many goroutines answer one request after the other; what is
// under way next to these gets one of its own. A goroutine that has answered before has
// the stack that an answer needs: growing one for each request is a fifth of a check.
const streamWorkers = 64

// window is how much a client may send before it learns that there is room again, in
// bytes, for a connection and for each check on it. A fixed one switches off gRPC's
// estimation of the bandwidth, for which Envoy would answer a PING and take a
// WINDOW_UPDATE with nearly every check. A larger message is let in as it is read.
const window = 1 << 20

// Options are what a server of gRPC is made with.
func (c Connections) Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
		grpc.MaxRecvMsgSize(c.MaxMessage),
		grpc.MaxConcurrentStreams(c.maxStreams),
		grpc.NumStreamWorkers(streamWorkers),
		// Bounds the TLS handshake too.
		grpc.ConnectionTimeout(HeaderTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: c.MaxAge, MaxConnectionAgeGrace: c.maxAgeGrace,
			Time: c.keepaliveTime, Timeout: c.keepaliveTimeout,
		}),
		// Envoy keeps connections for days and pings them as it is configured to.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}
}

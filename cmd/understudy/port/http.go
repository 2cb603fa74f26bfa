// Package port makes the ports of the server: a listener on TCP or a socket, TLS by files
// that are read again when they change, and limits on what a client may cost.
//
// The limits are about time and memory. Each port bounds the time of headers and of
// silence (NewHTTP). Bodies and answers are bounded by the port, if a call on it is short,
// or call by call, where calls may last (client_limits.go). The gRPC port bounds messages, and how
// many are under way on one connection (Connections).
//
// Callers who are not known yet are bounded all together (Unknown), whatever they ask for, on the
// ports that more than a proxy reaches.
//
// Certificates serve what their files hold now. Anyone who renews them replaces the files, in
// any order and in any way; while the files do not fit together, the last good ones serve.
// Handshakes that fail are counted, since the client of TLS 1.3 may not notice.
package port

import (
	"log/slog"
	"net/http"
	"time"
)

const (
	// maxHeader bounds the headers of a call, in bytes, which are read before it is known who
	// sends them: a token has 16 KiB at most.
	maxHeader = 64 << 10
	// HeaderTimeout bounds how long a client may take to send its headers.
	HeaderTimeout = 10 * time.Second
	// keepAlive is how long a connection without a call is kept.
	keepAlive = 3 * time.Minute
	// AnswerTimeout bounds how long a client may take to read an answer.
	AnswerTimeout = 2 * time.Minute
	// silence is how long nothing may come on a connection of HTTP/2 that has calls under
	// way, before its client is asked whether it lives, and pong how long it may take to
	// say so: calls may last long, and vanished clients would leave theirs for ever.
	silence = time.Minute
	pong    = 20 * time.Second
)

// NewHTTP returns a server that speaks HTTP/1 and HTTP/2, which gRPC needs, with and
// without TLS. It bounds headers, their time and that of idle connections; that of bodies and
// answers is for each port to bound.
func NewHTTP(h http.Handler, log *slog.Logger) *http.Server {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: HeaderTimeout,
		IdleTimeout:       keepAlive,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
		MaxHeaderBytes:    maxHeader,
		// net/http would answer `OPTIONS *` with 200 by itself, before anybody is asked.
		DisableGeneralOptionsHandler: true,
		HTTP2:                        &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: pong, WriteByteTimeout: AnswerTimeout},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

package main

import (
	"log/slog"
	"net/http"
	"time"
)

const (
	// headerTimeout bounds how long a client may take to send its headers.
	headerTimeout = 10 * time.Second
	// keepAlive is how long a connection without a call is kept.
	keepAlive = 3 * time.Minute
	// answerTimeout bounds how long a client may take to read an answer.
	answerTimeout = 2 * time.Minute
	// silence is how long nothing may come on a connection of HTTP/2 that has calls under
	// way, before its client is asked whether it lives, and pong how long it may take to
	// say so: calls may last long, and vanished clients would leave theirs for ever.
	silence = time.Minute
	pong    = 20 * time.Second
)

// newHTTP returns a server that speaks HTTP/1 and HTTP/2, which gRPC needs, with and
// without TLS. It bounds the time of headers and of idle connections; that of bodies and
// answers is for each port to bound.
func newHTTP(h http.Handler, log *slog.Logger) *http.Server {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       keepAlive,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: pong, WriteByteTimeout: answerTimeout},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

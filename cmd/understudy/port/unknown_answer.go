package port

import (
	"net/http"
	"time"
)

// unknownAnswer hands the deadlines of an answer to its call.
type unknownAnswer struct {
	http.ResponseWriter
	call *unknownCall
	// wrote says that there is something that the client has to make room for.
	wrote bool
}

// Write implements http.ResponseWriter.
func (w *unknownAnswer) Write(p []byte) (int, error) {
	w.wrote = true
	return w.ResponseWriter.Write(p)
}

// finish sends what net/http holds back, as long as the call has its slot: on HTTP/2 a client
// may make no room for it. Trailers need no room.
func (w *unknownAnswer) finish() {
	if w.wrote && !w.call.http1 && !w.call.isKnown() {
		_ = w.FlushError()
	}
}

// SetReadDeadline is for http.ResponseController.
func (w *unknownAnswer) SetReadDeadline(at time.Time) error { return w.call.setReadDeadline(at) }

// SetWriteDeadline is for http.ResponseController.
func (w *unknownAnswer) SetWriteDeadline(at time.Time) error { return w.call.setWriteDeadline(at) }

// FlushError is for http.ResponseController.
func (w *unknownAnswer) FlushError() error { return w.call.control.Flush() }

// Flush implements http.Flusher, without which no call of gRPC is served.
func (w *unknownAnswer) Flush() { _ = w.FlushError() }

// Unwrap is for http.ResponseController.
func (w *unknownAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

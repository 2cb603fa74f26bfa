package telemetry

import (
	"bytes"
	"net/http"
)

// oneAtATime makes one answer of next after the other, and sends each when it is whole. Nobody has
// to be known to ask for the metrics, and to gather them costs much more than to ask: however many
// do, it takes no more than one processor, and a client that reads slowly holds up no other one. A
// request that is ended waits no longer.
func oneAtATime(next http.Handler) http.Handler {
	turn := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case turn <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		answer := &heldAnswer{ResponseWriter: w, status: http.StatusOK}
		func() {
			defer func() { <-turn }()
			next.ServeHTTP(answer, r)
		}()
		w.WriteHeader(answer.status)
		_, _ = w.Write(answer.body.Bytes())
	})
}

// heldAnswer is an answer that is not sent yet.
type heldAnswer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (a *heldAnswer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *heldAnswer) Write(p []byte) (int, error) { return a.body.Write(p) }

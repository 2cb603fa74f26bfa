package ui

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/access"
)

const (
	// maxStreams bounds the pages that are live at a time. What is beyond gets 503, and is
	// loaded again by hand.
	maxStreams = 64
	// maxStreamsOf bounds those of one caller among them, so that nobody takes all places.
	maxStreamsOf = 16
	// streamLife is how long one lasts. A browser asks anew by itself; then it is found
	// again who that is.
	streamLife = 5 * time.Minute
	// leastPause is the shortest time between two looks at the services, and restShare how
	// much longer than the look itself the pause is: one page takes at most 5 % of a core.
	leastPause = time.Second
	restShare  = 20
	// heartbeat is how often something is sent at least, so that proxies and both ends know
	// that the other one is there.
	heartbeat = 15 * time.Second
	// sendTimeout is how long a client may take to read an event.
	sendTimeout = 10 * time.Second
)

// live reports whether a request is that of an EventSource.
func live(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream")
}

// streams counts the pages that are live. It is safe for concurrent use.
type streams struct {
	mu  sync.Mutex
	all int
	of  map[string]int // :: caller → how many
}

func newStreams() *streams { return &streams{of: make(map[string]int)} }

// enter takes a place for a caller, and reports whether there was one.
func (s *streams) enter(caller string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxStreams || s.of[caller] >= maxStreamsOf {
		return false
	}
	s.all++
	s.of[caller]++
	return true
}

// leave gives it back.
func (s *streams) leave(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[caller]--; s.of[caller] == 0 {
		delete(s.of, caller)
	}
}

// callerOf is whose place a live page takes: that of the principal, or, where nobody is known,
// of the address that asks.
func callerOf(r *http.Request) string {
	if member := access.FromContext(r.Context()).Member; member != "" {
		return member
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// stream sends the version of a view whenever it has another one, as server-sent events. It
// ends with the request, after streamLife, with the server, and when the view cannot be made
// any more: whoever asks anew is told why.
func (u *UI) stream(w http.ResponseWriter, r *http.Request, find func(*http.Request) (*view, error)) {
	caller := callerOf(r)
	if !u.streams.enter(caller) {
		http.Error(w, "Too many pages are live.", http.StatusServiceUnavailable)
		return
	}
	defer u.streams.leave(caller)
	version, spent, err := u.look(r, find)
	if err != nil {
		u.writeError(w, r, err)
		return
	}
	s := newStream(w)
	if !s.send("retry: 2000\nevent: version\ndata: %s\n\n", version) {
		return
	}
	over := time.NewTimer(streamLife)
	defer over.Stop()
	for sent := time.Now(); ; {
		select {
		case <-r.Context().Done():
			return
		case <-u.drained:
			return
		case <-over.C:
			return
		case <-time.After(max(leastPause, restShare*spent)):
		}
		before := version
		if version, spent, err = u.look(r, find); err != nil {
			if !passing(err) {
				s.send("event: gone\ndata: gone\n\n")
			}
			return
		}
		switch {
		case version != before:
			if !s.send("event: version\ndata: %s\n\n", version) {
				return
			}
		case time.Since(sent) < heartbeat:
			continue
		case !s.send(": still here\n\n"):
			return
		}
		sent = time.Now()
	}
}

// passing reports whether an error is of the store or of the time that there was, and not of the
// page: whoever asks anew may get it.
func passing(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// look makes a view and returns its version, and how long that took.
func (u *UI) look(r *http.Request, find func(*http.Request) (*view, error)) (version string, spent time.Duration, err error) {
	begin := time.Now()
	v, err := find(r)
	if err != nil {
		return "", 0, err
	}
	known := make(have)
	for _, p := range v.Parts {
		known[p.Version] = true
	}
	_, version, err = u.renderAll(v, known)
	return version, time.Since(begin), err
}

// events is an answer that lasts.
type events struct {
	w          http.ResponseWriter
	connection *http.ResponseController
}

// newStream begins an answer of events.
func newStream(w http.ResponseWriter) *events {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	return &events{w, http.NewResponseController(w)}
}

// send sends events, and reports whether they were taken. The deadline that the port has for
// an answer is moved: what lasts is not slow.
func (e *events) send(format string, values ...any) bool {
	_ = e.connection.SetWriteDeadline(time.Now().Add(sendTimeout))
	if _, err := fmt.Fprintf(e.w, format, values...); err != nil {
		return false
	}
	if e.connection.Flush() != nil {
		return false
	}
	_ = e.connection.SetWriteDeadline(time.Now().Add(heartbeat + 2*sendTimeout))
	return true
}

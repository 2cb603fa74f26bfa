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
	"understudy/admin/apierror"
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
// ends with the request, after streamLife, with the server, with the session, and when the view
// cannot be made any more: anyone who asks again gets the reason.
func (u *UI) stream(w http.ResponseWriter, r *http.Request, find func(*http.Request) (*view, error)) {
	caller := callerOf(r)
	if !u.streams.enter(caller) {
		http.Error(w, "Too many pages are live.", http.StatusServiceUnavailable)
		return
	}
	defer u.streams.leave(caller)
	ended, leave := u.watchSession(r)
	defer leave()
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
	for {
		select {
		case <-r.Context().Done():
			return
		case <-u.drained:
			return
		case <-over.C:
			return
		case <-ended:
			s.send(goneEvent)
			return
		case <-time.After(max(leastPause, restShare*spent)):
		}
		before := version
		if version, spent, err = u.lookAgain(r, find, s); err != nil {
			s.leave(err)
			return
		}
		if !s.sendVersion(version, before) {
			return
		}
	}
}

// leave ends events by an error: it says so if there is no page any more.
func (e *events) leave(err error) {
	if !passing(err) {
		e.send(goneEvent)
	}
}

// goneEvent says that there is no page any more for anyone who looks.
const goneEvent = "event: gone\ndata: gone\n\n"

// watchSession returns what is closed when the session of a request is logged out.
func (u *UI) watchSession(r *http.Request) (ended <-chan struct{}, leave func()) {
	if u.config.Login == nil {
		return nil, func() {}
	}
	return u.config.Login.Watch(r)
}

// lookAgain is look for anyone who is still who they were: credentials may have ended. That is
// found out with the next heartbeat.
func (u *UI) lookAgain(r *http.Request, find func(*http.Request) (*view, error), s *events) (string, time.Duration, error) {
	if time.Since(s.known) >= heartbeat {
		if err := u.stillKnown(r); err != nil {
			return "", 0, err
		}
		s.known = time.Now()
	}
	return u.look(r, find)
}

// stillKnown authenticates a request again. The error says that its credentials are not those
// of the same principal any more, or that this cannot be found out now.
func (u *UI) stillKnown(r *http.Request) error {
	before := access.FromContext(r.Context()).Member
	again, err := u.authenticated(r)
	if err != nil {
		return err
	}
	if access.FromContext(again.Context()).Member != before {
		return apierror.Unauthenticated("The credentials are those of somebody else now.")
	}
	return nil
}

// passing reports whether an error is of the store or of the time that there was, and not of the
// page: anyone who asks anew may get it.
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
	// sent is when something was sent last, and known when it was last found who asks.
	sent, known time.Time
}

// newStream begins an answer of events.
func newStream(w http.ResponseWriter) *events {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	now := time.Now()
	return &events{w: w, connection: http.NewResponseController(w), sent: now, known: now}
}

// sendVersion writes the version if it is another one, or else that this is still here if it is time
// for that. It reports whether the client takes it.
func (e *events) sendVersion(version, before string) bool {
	switch {
	case version != before:
		return e.send("event: version\ndata: %s\n\n", version)
	case time.Since(e.sent) < heartbeat:
		return true
	default:
		return e.send(": still here\n\n")
	}
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
	e.sent = time.Now()
	_ = e.connection.SetWriteDeadline(e.sent.Add(heartbeat + 2*sendTimeout))
	return true
}

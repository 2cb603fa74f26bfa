package port

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// clientLimits bound how long a client may take to send a body and to read an answer, where a
// call itself may last: http.Server's ReadTimeout and WriteTimeout would end calls that
// wait for an operation.
type clientLimits struct {
	// grace is how long a body may take however small it is, and rate how many bytes
	// earn one more second: so a large body on a slow link is read to its end, and one
	// that comes byte by byte is not waited for.
	grace time.Duration
	rate  int64
	// answer is as answerTimeout.
	answer time.Duration
}

// UsualClientLimits are those of the admin API. 8 KiB a second is below what any network of such a
// client has; a client that is slower only holds a connection.
var UsualClientLimits = clientLimits{grace: 30 * time.Second, rate: 8 << 10, answer: AnswerTimeout}

// Handler bounds the calls of next. Reading a body that is too slow fails with
// os.ErrDeadlineExceeded; one that nobody reads is not waited for either.
func (p clientLimits) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection := http.NewResponseController(w)
		if r.Body != http.NoBody && !converses(r) {
			body := &slowBody{ReadCloser: r.Body, limits: p, started: time.Now(), connection: connection}
			body.extend()
			r.Body = body
		}
		if isGRPC(r) {
			// Streams of answers last; the connection is asked whether it lives.
			next.ServeHTTP(w, r)
			return
		}
		// The deadline of the answer before, on a connection of HTTP/1.
		_ = connection.SetWriteDeadline(time.Time{})
		next.ServeHTTP(&slowWriter{ResponseWriter: w, begin: sync.OnceFunc(func() {
			_ = connection.SetWriteDeadline(time.Now().Add(p.answer))
		})}, r)
	})
}

// converses reports whether a call sends messages as long as it lasts: that of gRPC's
// reflection. All others send one.
func converses(r *http.Request) bool {
	return isGRPC(r) && strings.HasPrefix(r.URL.Path, "/grpc.reflection.")
}

// isGRPC reports whether a request is a call of gRPC. Whatever only looks like one, by its
// path or its type, is bounded as all others are: nobody has been asked yet who sends it.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// slowBody is a body with a deadline that moves with what has come.
type slowBody struct {
	io.ReadCloser
	limits     clientLimits
	connection *http.ResponseController
	// started is when the call began; the deadline is counted from there.
	started time.Time
	// got is the bytes that have come, and extended those with which the deadline was set.
	got, extended int64
}

// Read implements io.Reader.
func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.got += int64(n); b.got-b.extended >= b.limits.rate {
		b.extend()
	}
	if errors.Is(err, io.EOF) {
		// What is left of the call lasts as long as it needs. After any other error the
		// deadline stays: net/http reads what is left of a body before it answers.
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	return n, err
}

// extend moves the deadline by what has come since the last time.
func (b *slowBody) extend() {
	b.extended = b.got
	earned := time.Duration(b.got/b.limits.rate) * time.Second
	_ = b.connection.SetReadDeadline(b.started.Add(b.limits.grace + earned))
}

// slowWriter has a deadline from the beginning of the answer on.
type slowWriter struct {
	http.ResponseWriter
	// begin sets the deadline of the answer, once.
	begin func()
}

// WriteHeader implements http.ResponseWriter.
func (w *slowWriter) WriteHeader(code int) {
	w.begin()
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *slowWriter) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *slowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

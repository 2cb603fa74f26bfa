package port

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"understudy/admin/access"
)

// unknownPipes serves a handler to callers that are not known, in a bubble with a clock of its own.
type unknownPipes struct {
	*Unknown
	t *testing.T
	l *pipes
}

func newUnknownPipes(t *testing.T, h http.HandlerFunc) *unknownPipes {
	t.Helper()
	u, err := NewUnknown("admin", noop.NewMeterProvider())
	if err != nil {
		t.Fatal(err)
	}
	l := &pipes{conns: make(chan net.Conn), ended: make(chan struct{})}
	s := NewHTTP(UsualClientLimits.Handler(h), slog.New(slog.DiscardHandler))
	serveOn(t, s, u.Bound(s, l))
	return &unknownPipes{u, t, l}
}

// dial connects.
func (u *unknownPipes) dial() net.Conn {
	u.t.Helper()
	client, server := net.Pipe()
	u.t.Cleanup(func() { _ = client.Close() })
	u.l.conns <- server
	return client
}

// send sends a text on a new connection, which need not be read to its end.
func (u *unknownPipes) send(text string) net.Conn {
	u.t.Helper()
	conn := u.dial()
	go func() { _, _ = io.WriteString(conn, text) }()
	return conn
}

// taken asserts how many slots are taken.
func (u *unknownPipes) taken(calls, connections int) {
	u.t.Helper()
	time.Sleep(20 * turnTime) // of the bubble's clock: calls begin in turns
	synctest.Wait()
	gotCalls, _ := u.calls.numbers()
	gotConnections, _ := u.connections.numbers()
	if gotCalls != calls || gotConnections != connections {
		u.t.Errorf("%d calls and %d connections have slots, want %d and %d", gotCalls, gotConnections, calls, connections)
	}
}

// reads answers what came of reading the body, after the caller is known by a header.
func reads(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Known") != "" {
		access.Known(r.Context())
	}
	body, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.WriteHeader(http.StatusRequestTimeout)
	default:
		_, _ = fmt.Fprint(w, len(body))
	}
}

// TestBodiesOfUnknownCallers have 4 KiB and a second; those of known callers have neither bound.
func TestBodiesOfUnknownCallers(t *testing.T) {
	for name, c := range map[string]struct {
		header      string
		size, piece int
		want        int
		after       time.Duration
	}{
		"as much as may be": {size: 4096, piece: 4096, want: 200},
		"a byte more":       {size: 4097, piece: 4097, want: 413},
		"slow":              {size: 100, piece: 1, want: 408, after: time.Second},
		"known, large":      {header: "Known: 1\r\n", size: 1 << 20, piece: 1 << 20, want: 200},
		"known, slow":       {header: "Known: 1\r\n", size: 10 << 20, piece: 10 << 10, want: 200, after: 1023 * 100 * time.Millisecond},
		"known, too slow":   {header: "Known: 1\r\n", size: 400, piece: 1, want: 408, after: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUnknownPipes(t, reads)
				conn, began := u.dial(), time.Now()
				var sent sync.WaitGroup
				sent.Go(func() {
					_, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\n%sContent-Length: %d\r\n\r\n", c.header, c.size)
					for n := 0; n < c.size && err == nil; n += c.piece {
						_, err = conn.Write(make([]byte, min(c.piece, c.size-n)))
						time.Sleep(100 * time.Millisecond) // of the bubble's clock
					}
				})
				if got := answerOf(t, conn); got != c.want || time.Since(began) != c.after {
					t.Errorf("the answer is %d after %v, want %d after %v", got, time.Since(began), c.want, c.after)
				}
				_ = conn.Close()
				sent.Wait()
				u.taken(0, 0)
			})
		})
	}
}

// TestABodyThatWaitsForItsCaller: who is known after more than a second may send what they want.
func TestABodyThatWaitsForItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnknownPipes(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(5 * time.Second) // for an issuer
			reads(w, r)
		})
		for header, want := range map[string]int{"Known: 1\r\n": 200, "": 408} {
			conn := u.send("POST / HTTP/1.1\r\nHost: a\r\n" + header + "Content-Length: 2\r\n\r\nab")
			if got := answerOf(t, conn); got != want {
				t.Errorf("with the header %q: %d, want %d", header, got, want)
			}
		}
	})
}

// TestCallsOfUnknownCallers: the ninth call of an address ends the oldest, whatever that waits
// for, and those of known callers go on.
func TestCallsOfUnknownCallers(t *testing.T) {
	for name, request := range map[string]string{
		"a body":         "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
		"another server": "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var canceled atomic.Int32
				u := newUnknownPipes(t, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/wait" {
						reads(w, r)
						return
					}
					if r.Header.Get("Known") != "" {
						access.Known(r.Context())
					}
					<-r.Context().Done()
					canceled.Add(1)
				})
				known := u.send("GET /wait HTTP/1.1\r\nHost: a\r\nKnown: 1\r\n\r\n")
				u.taken(0, 0)
				first := u.send(request)
				u.taken(1, 1)
				for range 7 {
					u.send(request)
				}
				u.taken(8, 8)
				last := u.send(request)
				u.taken(8, 8)
				if _, err := bufio.NewReader(first).ReadByte(); err == nil {
					t.Error("the oldest call was answered")
				}
				_ = last.SetReadDeadline(time.Now().Add(time.Millisecond))
				if _, err := bufio.NewReader(last).ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the last call: %v", err)
				}
				if want := strings.Count(request, "wait"); canceled.Load() != int32(want) {
					t.Errorf("%d calls were canceled, want %d", canceled.Load(), want)
				}
				_ = known.Close()
			})
		})
	}
}

// TestConnectionsOfUnknownCallers: the 33rd connection of an address ends the oldest, and not the
// one on which somebody was known once.
func TestConnectionsOfUnknownCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnknownPipes(t, reads)
		known := u.send("GET / HTTP/1.1\r\nHost: a\r\nKnown: 1\r\n\r\n")
		if got := answerOf(t, known); got != 200 {
			t.Fatal(got)
		}
		u.taken(0, 0)
		first := u.dial()
		for range 32 {
			u.dial()
		}
		u.taken(0, 32)
		if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the oldest connection: %v", err)
		}
		go func() { _, _ = io.WriteString(known, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") }()
		if got := answerOf(t, known); got != 200 {
			t.Errorf("a call on a connection that was known is answered with %d", got)
		}
	})
}

// TestAnUnknownCallEnds: anyone who does not read the answer, and a handler that waits for ever, have
// a connection for a while.
func TestAnUnknownCallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{}, 2)
		u := newUnknownPipes(t, func(w http.ResponseWriter, r *http.Request) {
			defer func() { ended <- struct{}{} }()
			if r.URL.Path == "/wait" {
				<-r.Context().Done()
				return
			}
			for err := error(nil); err == nil; _, err = w.Write(make([]byte, 1<<20)) {
			}
		})
		began := time.Now()
		u.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		u.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
		<-ended
		<-ended
		if lasted := time.Since(began).Truncate(2 * turnTime); lasted != unknownTime+unknownAnswerTime {
			t.Errorf("the calls last %v", lasted)
		}
		u.taken(0, 0)
	})
}

// TestHeadersOfUnknownCallers: headers that are not complete are bounded in sum, and a call makes
// room.
func TestHeadersOfUnknownCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnknownPipes(t, reads)
		part := "GET / HTTP/1.1\r\nHost: a\r\nA: " + strings.Repeat("a", 60<<10)
		complete := u.send(part + "\r\n\r\n")
		if got := answerOf(t, complete); got != 200 {
			t.Fatal(got)
		}
		first := u.send(part)
		for range 7 {
			u.send(part)
		}
		u.taken(0, 9)
		if size, lost := u.bytes.numbers(); lost != 0 || size < 8*60<<10 {
			t.Errorf("%d bytes were sent, and %d connections are lost", size, lost)
		}
		u.send(part)
		u.taken(0, 9)
		if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the oldest connection: %v", err)
		}
	})
}

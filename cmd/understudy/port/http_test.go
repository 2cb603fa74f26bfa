package port

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"understudy/admin"
	"understudy/admin/boltstore"
	"understudy/admin/policyfile"
	"understudy/admin/rest"
	adminpb "understudy/admin/v1"
	"understudy/cmd/testkit"
)

// impatient are limits with which a test need not wait long for what is too slow. What a test sends at
// once is in time also on a busy machine.
var impatient = clientLimits{grace: time.Second, rate: 1 << 20, answer: testkit.Patience}

// bothAPIs is what the admin port serves.
func bothAPIs(t *testing.T) http.Handler {
	t.Helper()
	store, err := boltstore.Open(filepath.Join(t.TempDir(), "understudy.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	server, err := admin.NewServer(admin.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	edge, err := rest.New(rest.Config{Services: server})
	if err != nil {
		t.Fatal(err)
	}
	api, err := policyfile.New(policyfile.Config{Admin: server, Project: "default"})
	if err != nil {
		t.Fatal(err)
	}
	return api.Handler(edge)
}

// serveOn serves on a listener until the test ends.
func serveOn(t *testing.T, s *http.Server, l net.Listener) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := testkit.Receive(t, "the server to end", done); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

func listenLocally(t *testing.T, s *http.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, s, l)
	return l.Addr().String()
}

// TestASlowBodyIsAnswered: anyone who does not send the rest of a body is answered, whatever
// the call is, and the connection is closed.
func TestASlowBodyIsAnswered(t *testing.T) {
	addr := listenLocally(t, NewHTTP(impatient.Handler(bothAPIs(t)), slog.New(slog.DiscardHandler)))
	const location = "/v1/projects/default/locations/local"
	var calls sync.WaitGroup
	defer calls.Wait()
	for line, want := range map[string]int{
		"POST " + location + "/policies?policyId=web": 408,
		"PUT /policy_groups/local":                    408,
		"GET " + location + "/policies":               408,
		"GET /policy_groups":                          200,
		"POST /nothing":                               404,
		"POST /grpc.reflection.v1.ServerReflection/x": 404, // of gRPC by its path alone
		"POST " + location + "/config:undo?unknown=1": 404,
		"PUT " + location + "/policies":               405,
	} {
		for _, framing := range []string{"Content-Length: 100\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "Transfer-Encoding: chunked\r\n\r\n"} {
			calls.Go(func() {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = conn.Close() }()
				_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s", line, framing)
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := io.ReadAll(conn)
				if err != nil || !strings.HasPrefix(string(answer), fmt.Sprintf("HTTP/1.1 %d ", want)) {
					t.Errorf("%s with %q: %v, %q, want %d", line, framing, err, answer, want)
				}
			})
		}
	}
}

// TestSlowStreamsOfHTTP2: slow bodies on one connection are answered, and neither they
// nor their end hold up or end the calls next to them.
func TestSlowStreamsOfHTTP2(t *testing.T) {
	apis, release, waiting := bothAPIs(t), make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/wait" {
			apis.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		close(waiting)
		select {
		case <-release:
		case <-r.Context().Done():
			t.Error("a call that waits was ended")
		}
	})
	addr := listenLocally(t, NewHTTP(impatient.Handler(handler), slog.New(slog.DiscardHandler)))
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	send := func(method, path string, body io.Reader) int {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, body)
		if err != nil {
			t.Error(err)
			return 0
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer func() { _ = response.Body.Close() }()
		return response.StatusCode
	}
	var slow, waits sync.WaitGroup
	waits.Go(func() {
		if code := send("POST", "/wait", strings.NewReader("{}")); code != 200 {
			t.Errorf("the call that waits: %d", code)
		}
	})
	testkit.Closed(t, "the request to wait", waiting)
	for range 100 {
		slow.Go(func() {
			body, never := io.Pipe()
			defer func() { _ = never.Close() }()
			if code := send("POST", "/v1/projects/default/locations/local/policies?policyId=web", body); code != 408 {
				t.Errorf("a slow stream: %d", code)
			}
		})
	}
	if code := send("GET", "/policy_groups", nil); code != 200 {
		t.Errorf("a call beside slow streams: %d", code)
	}
	slow.Wait()
	close(release)
	waits.Wait()
}

// TestSlowCallsOfGRPC: a call whose message does not come ends, and a stream of answers
// lasts.
func TestSlowCallsOfGRPC(t *testing.T) {
	addr := listenLocally(t, NewHTTP(impatient.Handler(bothAPIs(t)), slog.New(slog.DiscardHandler)))
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := watch.Recv(); err != nil || first.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("the health is %v, %v; want SERVING", first, err)
	}
	stalled, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, adminpb.PolicyPreview_GetPolicy_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := stalled.RecvMsg(&adminpb.Policy{}); status.Code(err) == codes.OK {
		t.Error("a call without a message succeeded")
	}
	// The watch began before the call that ended, and is older than the bound.
	ended := make(chan error, 1)
	go func() { _, err := watch.Recv(); ended <- err }()
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
	cancel()
	if err := testkit.Receive(t, "the watch to end", ended); status.Code(err) != codes.Canceled {
		t.Errorf("the watch ended by %v before its client ended it", err)
	}
}

// pipes is a listener in memory.
type pipes struct {
	net.Listener
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.ended) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// overPipe calls do with a connection to a server with the usual limits, whose handler reads
// the body and then waits, in a bubble with a clock of its own.
func overPipe(t *testing.T, wait time.Duration, do func(t *testing.T, conn net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), ended: make(chan struct{})}
		s := NewHTTP(UsualClientLimits.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := rest.ReadBody(w, r, 64<<20); err != nil {
				w.WriteHeader(http.StatusRequestTimeout)
				return
			}
			select {
			case <-time.After(wait):
			case <-r.Context().Done():
				t.Error("the call was ended")
			}
		})), slog.New(slog.DiscardHandler))
		serveOn(t, s, l)
		client, server := net.Pipe()
		defer func() { _ = client.Close() }()
		l.conns <- server
		do(t, client)
	})
}

// answerOf reads the next answer.
func answerOf(t *testing.T, conn net.Conn) int {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// TestSlowBodies is the bound of bodies: 30 seconds and one more for each 8 KiB.
func TestSlowBodies(t *testing.T) {
	for name, c := range map[string]struct {
		piece int
		every time.Duration
		size  int
		want  int
		after time.Duration // the latest
	}{
		"byte by byte":               {piece: 1, every: time.Second, size: 1000, want: 408, after: 30 * time.Second},
		"too slow for its size":      {piece: 4 << 10, every: time.Second, size: 16 << 20, want: 408, after: time.Minute},
		"large, on a slow link":      {piece: 10 << 10, every: time.Second, size: 16 << 20, want: 200, after: time.Hour},
		"small, in a bit of seconds": {piece: 100, every: 5 * time.Second, size: 500, want: 200, after: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			overPipe(t, 0, func(t *testing.T, conn net.Conn) {
				began, sent := time.Now(), make(chan struct{})
				go func() {
					defer close(sent)
					_, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", c.size)
					for n := 0; err == nil && n < c.size; n += c.piece {
						time.Sleep(c.every) // of the bubble's clock
						_, err = conn.Write(make([]byte, min(c.piece, c.size-n)))
					}
				}()
				if got := answerOf(t, conn); got != c.want || time.Since(began) > c.after {
					t.Errorf("the answer is %d after %v, want %d", got, time.Since(began), c.want)
				}
				<-sent
			})
		})
	}
}

// TestACallThatWaitsLasts, with and without a body; the connection ends when it has had
// no call for a while.
func TestACallThatWaitsLasts(t *testing.T) {
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	} {
		overPipe(t, time.Hour, func(t *testing.T, conn net.Conn) {
			for range 2 {
				if _, err := io.WriteString(conn, request); err != nil {
					t.Fatal(err)
				}
				if got := answerOf(t, conn); got != 200 {
					t.Errorf("the answer is %d", got)
				}
			}
			began := time.Now()
			if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) != keepAlive {
				t.Errorf("the idle connection: %d bytes, %v after %v", n, err, time.Since(began))
			}
		})
	}
}

package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"understudy/admin/storetest"
	"understudy/cmd/understudy/storage"
)

// stallingProxy stands before a Redis and can become what a half-open connection is: it
// takes connections and bytes, and answers nothing.
type stallingProxy struct {
	listener net.Listener
	server   *storetest.RedisServer
	running  sync.WaitGroup

	mu      sync.Mutex
	stalled bool
	conns   []net.Conn
}

func newStallingProxy(t *testing.T, server *storetest.RedisServer) *stallingProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &stallingProxy{listener: l, server: server}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	return p
}

func (p *stallingProxy) url() string { return "redis://" + p.listener.Addr().String() }

// stall makes every connection, open or to come, a half-open one. What stalled once does
// not recover: after the end of the stall, only new connections get answers.
func (p *stallingProxy) stall(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = on
	for _, c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok && on {
			_ = tcp.CloseRead() // the proxy's side: what comes is dropped, and nothing is sent
		}
	}
}

func (p *stallingProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.conns = append(p.conns, client)
		stalled := p.stalled
		p.mu.Unlock()
		if stalled {
			continue
		}
		network, address := p.server.Address()
		server, err := net.Dial(network, address)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, server)
		p.mu.Unlock()
		p.running.Go(func() { p.pass(server, client) })
		p.running.Go(func() { p.pass(client, server) })
	}
}

// pass passes bytes on until the proxy stalls; then both ends stay open and silent.
func (p *stallingProxy) pass(to io.Writer, from io.Reader) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		stalled := p.stalled
		p.mu.Unlock()
		if err != nil || stalled {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// TestAStartBesideAHalfOpenRedis starts from the file while nothing has been answered,
// and follows the store once new connections are.
func TestAStartBesideAHalfOpenRedis(t *testing.T) {
	t.Parallel()
	redis := storetest.StartRedis(t)
	proxy := newStallingProxy(t, redis)
	file := filepath.Join(t.TempDir(), "snapshot")
	through := func(node string) func(*config) {
		return func(c *config) { c.Store, c.SnapshotFile, c.node = proxy.url(), file, node }
	}
	startServer(t, through("before")).preview(t)
	proxy.stall(true)
	r := startServer(t, through("after"))
	r.decidesWhenReady(t, 0, 7)
	if _, ready := r.readiness(t); ready.StoreLostSeconds == 0 || ready.StoreError == "" || ready.MissingCount > 0 {
		t.Errorf("/readyz says %+v", ready)
	}
	if _, metrics := r.call(t, "health", "GET", "/metrics", ""); strings.Contains(metrics, "\nunderstudy_snapshot_age_seconds 0\n") {
		t.Error("the metrics do not say that the store is lost")
	}
	proxy.stall(false)
	r.awaitReadiness(t, "the store again", func(ready readiness) bool { return ready.StoreLostSeconds == 0 && ready.StoreError == "" })
}

func (r *running) decidesWhenReady(t *testing.T, get, post int32) {
	t.Helper()
	r.awaitReadiness(t, "a start", func(readiness) bool { return true })
	r.decides(t, get, post)
}

// TestAPasswordIsChanged restarts a sidecar whose password is not the right one any more:
// with a file it decides, and follows when it is let in again; without one it ends.
func TestAPasswordIsChanged(t *testing.T) {
	t.Parallel()
	redis := storetest.StartRedis(t)
	sendToRedis(t, redis, "ACL SETUSER app on >first ~* &* +@all")
	_, path := redis.Address()
	file := filepath.Join(t.TempDir(), "snapshot")
	configure := func(node string) func(*config) {
		return func(c *config) { c.Store, c.SnapshotFile, c.node = "unix://app:first@"+path, file, node }
	}
	t.Run("before", func(t *testing.T) { startServer(t, configure("before")).preview(t) })
	sendToRedis(t, redis, "ACL SETUSER app resetpass >second")

	t.Run("with a file", func(t *testing.T) {
		r := startServer(t, configure("after"))
		r.decidesWhenReady(t, 0, 7)
		_, ready := r.readiness(t)
		if !strings.Contains(ready.StoreError, "WRONGPASS") || !strings.Contains(ready.StoreError, "correct the user and the password") ||
			strings.Contains(ready.StoreError, "first") || ready.StoreLostSeconds == 0 {
			t.Errorf("/readyz says %+v", ready)
		}
		if code, body := r.call(t, "admin", "GET", policies, ""); code != 503 {
			t.Errorf("the admin API answers %d %s", code, body)
		}
		sendToRedis(t, redis, "ACL SETUSER app resetpass >first")
		r.awaitReadiness(t, "the store again", func(ready readiness) bool { return ready.StoreError == "" })
		sendToRedis(t, redis, "ACL SETUSER app resetpass >second")
	})

	t.Run("without a file", func(t *testing.T) {
		c := demoConfig(t.TempDir())
		configure("alone")(&c)
		c.SnapshotFile = filepath.Join(t.TempDir(), "none")
		err := serve(t.Context(), c, nil, io.Discard, func(map[string]string) { t.Error("it has started") })
		if err == nil || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "first") {
			t.Errorf("got %v", err)
		}
	})
}

// TestRisksOfRedisAreWarnedOf once it answers.
func TestRisksOfRedisAreWarnedOf(t *testing.T) {
	t.Parallel()
	redis := storetest.StartRedis(t)
	c := demoConfig(t.TempDir())
	c.Store = redis.URL()
	for _, step := range []struct{ command, says, not string }{
		{"PING", "loses all policies", "noeviction"},
		{"CONFIG SET maxmemory-policy allkeys-lru", "noeviction", ""},
		{"ACL SETUSER default -config", "is not known", "Redis may lose policies"},
	} {
		sendToRedis(t, redis, step.command)
		st, err := storage.Open(c.Config, nil)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		storage.WarnOfRisks(context.WithoutCancel(t.Context()), st, slog.New(slog.NewTextHandler(&log, nil)))
		if !strings.Contains(log.String(), step.says) || step.not != "" && strings.Contains(log.String(), step.not) {
			t.Errorf("%s: the log says %s", step.command, log.String())
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}

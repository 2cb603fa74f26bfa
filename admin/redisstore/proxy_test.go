package redisstore_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"understudy/admin/storetest"
)

// proxy stands between a store and its redis-server and loses what the test wants to be lost.
type proxy struct {
	network, address string
	listener         net.Listener
	path             string
	running          sync.WaitGroup
	// word is a command whose requests are counted and may be lost.
	word []byte
	// replies and requests are how many of them to lose: the connection is cut
	// after the server has run the command, or before it gets it.
	replies, requests atomic.Int64
	// last is the number of requests after which nothing connects any more; 0 means
	// never.
	last atomic.Int64
	// passed counts the requests that reached the server.
	passed atomic.Int64

	mu    sync.Mutex
	conns []net.Conn
}

// newProxy starts a proxy on a socket of its own.
func newProxy(t *testing.T, server *storetest.RedisServer, word string) *proxy {
	t.Helper()
	folder, err := os.MkdirTemp("", "proxy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	p := &proxy{path: filepath.Join(folder, "s"), word: []byte(word)}
	p.network, p.address = server.Address()
	if p.listener, err = net.Listen("unix", p.path); err != nil {
		t.Fatal(err)
	}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) url() string { return "unix://" + p.path }

// downAfter makes the proxy go away once n more requests have passed.
func (p *proxy) downAfter(n int64) { p.last.Store(p.passed.Load() + n) }

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(p.network, p.address)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		cut := &atomic.Bool{}
		p.running.Go(func() { p.forward(client, server, cut) })
		p.running.Go(func() { p.back(client, server, cut) })
	}
}

// forward passes requests on, each of which is small enough to come at once.
func (p *proxy) forward(client, server net.Conn, cut *atomic.Bool) {
	defer client.Close()
	defer server.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.Contains(buffer[:n], p.word) {
			if p.requests.Add(-1) >= 0 {
				return
			}
			if p.replies.Add(-1) >= 0 {
				cut.Store(true)
			}
			if n := p.passed.Add(1); n == p.last.Load() {
				_ = p.listener.Close()
			}
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// back passes replies on, until one is to be lost: the server has run it by then.
func (p *proxy) back(client, server net.Conn, cut *atomic.Bool) {
	defer client.Close()
	defer server.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil || cut.Load() {
			return
		}
		if _, err := io.Copy(client, bytes.NewReader(buffer[:n])); err != nil {
			return
		}
	}
}

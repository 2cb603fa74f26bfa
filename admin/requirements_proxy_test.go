package admin_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// proxy stands between a client and Redis.
type proxy struct {
	socket, target string
	listener       net.Listener

	mu sync.Mutex
	// lose is what is done to the reply of the next commit.
	lose loss
	// lost is closed once a reply was lost.
	lost  chan struct{}
	conns map[net.Conn]bool
}

// loss is what a proxy does to replies.
type loss int

const (
	loseNothing loss = iota
	// loseOnce drops the reply of one commit with its connection.
	loseOnce
	// loseForever drops it and lets nobody through from then on.
	loseForever
)

// viaProxy puts a proxy between the server s1 and Redis.
func (r *row) viaProxy() *proxy {
	folder, err := os.MkdirTemp("", "proxy")
	if err != nil {
		r.Fatal(err)
	}
	target, _, _ := strings.Cut(strings.TrimPrefix(r.store.address, "unix://"), "?")
	p := &proxy{
		socket: filepath.Join(folder, "s"), target: target,
		lost: make(chan struct{}), conns: map[net.Conn]bool{},
	}
	if p.listener, err = net.Listen("unix", p.socket); err != nil {
		r.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { p.serve(&running) })
	r.Cleanup(func() { p.close(); running.Wait(); _ = os.RemoveAll(folder) })
	r.servers["s1"] = r.serve(openAddress(r.T, "unix://"+p.socket, r.store.project, r.clock))
	return p
}

func (p *proxy) serve(running *sync.WaitGroup) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", p.target)
		if err != nil || !p.keep(client, server) {
			_ = client.Close()
			continue
		}
		dropped := make(chan struct{})
		running.Go(func() { p.forward(client, server, dropped) })
		running.Go(func() { p.back(client, server, dropped) })
	}
}

// keep notes open connections; it refuses them once the proxy is closed.
func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.conns == nil {
			_ = c.Close()
			continue
		}
		p.conns[c] = true
	}
	return p.conns != nil
}

// close ends all connections and lets nobody through any more.
func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// forward passes on what the client says. If the reply to it is to be lost, it says
// so to back before the server can answer.
func (p *proxy) forward(client, server net.Conn, dropped chan struct{}) {
	buffer := make([]byte, 1<<20)
	for {
		n, err := client.Read(buffer)
		if n > 0 {
			if p.isLost(buffer[:n]) {
				close(dropped)
			}
			if _, writeErr := server.Write(buffer[:n]); writeErr != nil {
				err = writeErr
			}
		}
		if err != nil {
			_ = server.Close()
			return
		}
	}
}

// isLost reports whether the reply to a request is to be lost: it is a commit with
// its operation.
func (p *proxy) isLost(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lose == loseNothing || !bytes.Contains(bytes.ToUpper(request), []byte("FCALL\r")) ||
		!bytes.Contains(request, []byte("CommitPolicyExperimentMetadata")) {
		return false
	}
	if p.lose == loseOnce {
		p.lose = loseNothing
	}
	return true
}

// back passes on what the server says, until a reply is to be lost.
func (p *proxy) back(client, server net.Conn, dropped chan struct{}) {
	defer client.Close()
	buffer := make([]byte, 1<<20)
	for {
		n, err := server.Read(buffer)
		select {
		case <-dropped:
			if p.noteLost() {
				p.close()
			}
			return
		default:
		}
		if n > 0 {
			if _, writeErr := client.Write(buffer[:n]); writeErr != nil {
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = server.Close()
			}
			return
		}
	}
}

// noteLost notifies the test, and returns whether to lose all else too.
func (p *proxy) noteLost() (everything bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.lost:
	default:
		close(p.lost)
	}
	return p.lose == loseForever
}

func (p *proxy) arm(l loss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = l
}

// wasLost checks that the proxy has done what it was armed for.
func (p *proxy) wasLost(r *row) {
	select {
	case <-p.lost:
	default:
		r.Error("no reply was lost")
	}
}

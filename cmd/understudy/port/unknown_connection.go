package port

import (
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// unknownListener accepts connections on which nobody is known, at the rate of their arrivals.
type unknownListener struct {
	net.Listener
	unknown *Unknown
	// receives begins with the first Accept.
	receives sync.Once
	// failed has what went wrong on the listener, once for each time that somebody accepts.
	failed chan error
	closed chan struct{}
	closes sync.Once
}

func newUnknownListener(l net.Listener, u *Unknown) *unknownListener {
	return &unknownListener{Listener: l, unknown: u, failed: make(chan error), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *unknownListener) Accept() (net.Conn, error) {
	l.receives.Do(func() { go l.receive() })
	for {
		conn, wait := l.unknown.arrivals.next()
		if conn != nil {
			return l.enter(conn), nil
		}
		var later <-chan time.Time
		if wait > 0 {
			later = time.After(wait)
		}
		select {
		case <-l.unknown.arrivals.changed:
		case <-later:
		case err := <-l.failed:
			return nil, err
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// receivePause is how long receive pauses after receivedAtOnce connections. While connections come
// faster than they are taken, nothing else makes it wait, and the runtime would ask every 10 ms only
// whether other connections can be read.
const (
	receivedAtOnce = 2
	receivePause   = 500 * time.Microsecond
)

// receive takes connections from the system as they come, until the listener is closed.
func (l *unknownListener) receive() {
	defer l.unknown.arrivals.close()
	for n := 1; ; n++ {
		conn, err := l.Listener.Accept()
		if err == nil {
			l.unknown.arrivals.add(conn)
			if n%receivedAtOnce == 0 {
				time.Sleep(receivePause)
			}
			continue
		}
		select {
		case l.failed <- err:
		case <-l.closed:
			return
		}
	}
}

// Close implements net.Listener.
func (l *unknownListener) Close() error {
	l.closes.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// enter gives a connection its slots.
func (l *unknownListener) enter(conn net.Conn) net.Conn {
	c := &unknownConnection{Conn: conn, unknown: l.unknown, over: make(chan struct{})}
	c.of = addressOf(conn.RemoteAddr().String())
	end := func() { _ = c.Close() }
	c.bytes = l.unknown.bytes.enter(c.of, 0, end)
	c.slot = l.unknown.connections.enter(c.of, 1, end)
	return c
}

// unknownConnection is a connection on which nobody is known, and perhaps somebody was later.
type unknownConnection struct {
	net.Conn
	unknown *Unknown
	of      netip.Prefix
	// slot is that of the connection, and bytes that of what has come on it since its last call.
	slot, bytes *slot
	known       atomic.Bool
	// turn gives back the turn of the connection; nil if it has none.
	turn atomic.Pointer[func()]
	// over is closed with the connection.
	over chan struct{}
	once sync.Once
}

// connectionKey is the key of an *unknownConnection in a context.
type connectionKey struct{}

// connectionOf is what a connection of a server is, with TLS or without. One that is not of the
// listener of Bound has no bounds, and no business here.
func connectionOf(c net.Conn) *unknownConnection {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return c.(*unknownConnection)
}

// Read implements io.Reader.
func (c *unknownConnection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.known.Load() {
		c.unknown.bytes.grow(c.bytes, n)
	}
	return n, err
}

// CloseWrite lets net/http send an answer to its end, although the client sends more.
func (c *unknownConnection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements io.Closer.
func (c *unknownConnection) Close() error {
	c.once.Do(func() { close(c.over) })
	c.leave()
	return c.Conn.Close()
}

// leave gives the slots back.
func (c *unknownConnection) leave() {
	c.unknown.connections.leave(c.slot)
	c.unknown.bytes.leave(c.bytes)
}

// called notes that what has come is a call now.
func (c *unknownConnection) called() {
	if !c.known.Load() {
		c.unknown.bytes.empty(c.bytes)
	}
}

// becomesKnown lifts the connection out of the bounds.
func (c *unknownConnection) becomesKnown() {
	if c.known.CompareAndSwap(false, true) {
		c.leave()
		c.unknown.arrivals.becomesKnown(c.of)
	}
}

// turns let one connection after the other begin calls, of those on which nobody is known. A
// connection of HTTP/2 may bring many at once, and net/http has a goroutine for each of them before
// it reads the next connection: without turns all of them would be there before the first ran, and
// live decisions would wait behind them.
type turns chan struct{}

// turnTime bounds a turn: the call may wait for its body, or for an issuer.
const turnTime = 5 * time.Millisecond

// take waits for a turn. It lasts until one of the calls that begin is over, or its caller is
// known.
func (t turns) take(c *unknownConnection) {
	if c.known.Load() {
		return
	}
	select {
	case t <- struct{}{}:
	case <-c.over:
		return
	}
	back := sync.OnceFunc(func() { <-t })
	c.turn.Store(&back)
	time.AfterFunc(turnTime, back)
}

// endTurn gives the turn of a connection back.
func (c *unknownConnection) endTurn() {
	if back := c.turn.Swap(nil); back != nil {
		(*back)()
	}
}

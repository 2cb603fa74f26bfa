package port

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// unknownListener accepts connections on which nobody is known.
type unknownListener struct {
	net.Listener
	unknown *Unknown
}

// Accept implements net.Listener.
func (l unknownListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &unknownConnection{Conn: conn, unknown: l.unknown, over: make(chan struct{})}
	of := addressOf(conn.RemoteAddr().String())
	end := func() { _ = c.Close() }
	c.bytes = l.unknown.bytes.enter(of, 0, end)
	c.slot = l.unknown.connections.enter(of, 1, end)
	return c, nil
}

// unknownConnection is a connection on which nobody is known, and perhaps somebody was later.
type unknownConnection struct {
	net.Conn
	unknown *Unknown
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

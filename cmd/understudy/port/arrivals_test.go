package port

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
)

// arrivingFrom is a connection of an address.
type arrivingFrom struct {
	net.Conn
	address string
	closed  bool
}

func (c *arrivingFrom) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.address + ":1"))
}

func (c *arrivingFrom) Close() error {
	c.closed = true
	return nil
}

// comeFrom has connections of some addresses arrive.
func comeFrom(a *arrivals, addresses ...string) (out []*arrivingFrom) {
	for _, address := range addresses {
		c := &arrivingFrom{address: address}
		a.add(c)
		out = append(out, c)
	}
	return out
}

// admittedNow lets in what may be let in now, and returns whose it is.
func admittedNow(a *arrivals) (out []string) {
	for {
		conn, _ := a.next()
		if conn == nil {
			return out
		}
		out = append(out, conn.(*arrivingFrom).address)
	}
}

// TestArrivalsHaveARate: after a quiet time some are let in at once, and then one after the other.
func TestArrivalsHaveARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArrivals()
		for i := range arrivalsWaiting {
			comeFrom(a, fmt.Sprintf("10.0.0.%d", i))
		}
		if got := len(admittedNow(a)); got != arrivalsAtOnce {
			t.Errorf("%d are let in at once", got)
		}
		if _, wait := a.next(); wait != arrivalPause {
			t.Errorf("the next one waits for %v", wait)
		}
		time.Sleep(10 * arrivalPause)
		if got := len(admittedNow(a)); got != 10 {
			t.Errorf("%d are let in during 10 pauses", got)
		}
		time.Sleep(time.Hour)
		if got := len(admittedNow(a)); got != arrivalsAtOnce {
			t.Errorf("%d are let in after an hour", got)
		}
		if waiting, refused := a.numbers(); waiting != arrivalsWaiting-2*arrivalsAtOnce-10 || refused != 0 {
			t.Errorf("%d wait, and %d were refused", waiting, refused)
		}
	})
}

// TestTheNextArrival is of the address that has waited longest since it was let in; an address that
// is new does not wait behind those that connect again and again.
func TestTheNextArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArrivals()
		for i := range arrivalsAtOnce {
			comeFrom(a, fmt.Sprintf("10.0.0.%d", i))
			admittedNow(a)
			time.Sleep(time.Nanosecond)
		}
		comeFrom(a, "10.0.0.2", "10.0.0.1", "10.0.0.1", "10.0.1.1")
		time.Sleep(4 * arrivalPause)
		if got := fmt.Sprint(admittedNow(a)); got != "[10.0.1.1 10.0.0.1 10.0.0.2 10.0.0.1]" {
			t.Errorf("let in are %s", got)
		}
	})
}

// TestTooManyArrivals: the newest connection of the address that was let in last is closed.
func TestTooManyArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArrivals()
		comeFrom(a, "10.0.0.1")
		admittedNow(a)
		again := comeFrom(a, "10.0.0.1", "10.0.0.1")
		for i := range arrivalsWaiting - 1 {
			comeFrom(a, fmt.Sprintf("10.1.0.%d", i))
		}
		if again[0].closed || !again[1].closed {
			t.Errorf("the older one is closed: %v, the newer one: %v", again[0].closed, again[1].closed)
		}
		if waiting, refused := a.numbers(); waiting != arrivalsWaiting || refused != 1 {
			t.Errorf("%d wait, and %d were refused", waiting, refused)
		}
		a.close()
		if !again[0].closed {
			t.Error("what waits is not closed")
		}
	})
}

// TestArrivalsOfKnownCallers are let in at once, for an hour after a caller of the address was known.
func TestArrivalsOfKnownCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArrivals()
		for i := range arrivalsWaiting {
			comeFrom(a, fmt.Sprintf("10.0.0.%d", i))
		}
		admittedNow(a)
		a.becomesKnown(netip.MustParsePrefix("10.1.0.1/32"))
		comeFrom(a, "10.1.0.1", "10.1.0.1", "10.1.0.2")
		if got := fmt.Sprint(admittedNow(a)); got != "[10.1.0.1 10.1.0.1]" {
			t.Errorf("let in are %s", got)
		}
		time.Sleep(knownFor)
		if comeFrom(a, "10.1.0.1"); len(a.known) != 0 {
			t.Error("the address is known after an hour")
		}
	})
}

// TestRecentAddresses are bounded, and the last of them are kept.
func TestRecentAddresses(t *testing.T) {
	var r recent
	address := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
	}
	for i := range 10 * recentAddresses {
		r.note(address(i), time.Unix(int64(i), 0))
		if kept := len(r.young) + len(r.old); kept > 2*recentAddresses {
			t.Fatalf("%d addresses are kept", kept)
		}
		if first := max(0, i-recentAddresses+1); !r.last(address(first)).Equal(time.Unix(int64(first), 0)) {
			t.Fatalf("after %d addresses, address %d is gone", i, first)
		}
	}
	if at := r.last(address(0)); !at.IsZero() {
		t.Errorf("the first address has the time %v", at)
	}
}

// TestAListenerFails: the server is told, may go on, and ends when the listener is closed, which
// closes the connections that wait.
func TestAListenerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, err := NewUnknown("admin", noop.NewMeterProvider())
		if err != nil {
			t.Fatal(err)
		}
		broken := errors.New("too many open files")
		inner := &scripted{steps: make(chan any), ended: make(chan struct{})}
		l := u.Bound(NewHTTP(http.NotFoundHandler(), slog.New(slog.DiscardHandler)), inner)
		go func() { inner.steps <- broken }()
		if _, err := l.Accept(); !errors.Is(err, broken) {
			t.Errorf("accepting: %v", err)
		}
		first, second := &arrivingFrom{address: "10.0.0.1"}, &arrivingFrom{address: "10.0.0.1"}
		go func() { inner.steps <- first; inner.steps <- second }()
		if conn, err := l.Accept(); err != nil || conn.(*unknownConnection).Conn != first {
			t.Errorf("after a failure: %v, %v", conn, err)
		}
		time.Sleep(10 * receivePause)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if !second.closed {
			t.Error("a connection that waits is not closed")
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accepting after the end: %v", err)
		}
	})
}

// scripted is a listener whose connections and errors are sent to it.
type scripted struct {
	steps chan any
	ended chan struct{}
}

func (s *scripted) Accept() (net.Conn, error) {
	select {
	case step := <-s.steps:
		if err, failed := step.(error); failed {
			return nil, err
		}
		return step.(net.Conn), nil
	case <-s.ended:
		return nil, net.ErrClosed
	}
}

func (s *scripted) Addr() net.Addr { return nil }

func (s *scripted) Close() error {
	close(s.ended)
	return nil
}

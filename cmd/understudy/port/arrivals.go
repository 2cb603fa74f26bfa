package port

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// arrivalPause is the time between two connections that are let in, and arrivalsAtOnce how many
	// are let in without it after a quiet time. TLS costs a good part of a millisecond.
	arrivalPause   = 20 * time.Millisecond
	arrivalsAtOnce = 64
	// arrivalsWaiting bounds the connections that wait to be let in.
	arrivalsWaiting = 256
	// knownFor is for how long an address counts as known after a caller of it was.
	knownFor = time.Hour
)

// arrivals are the new connections of a port, before anything is read from them. Those of an address
// of which a caller was known within the last hour are let in at once. The others are let in at a
// bounded rate: the address that has waited longest since it was let in is next, and one that never
// was comes before all of these. So a client gains nothing by connecting again and again.
// It is safe for concurrent use.
type arrivals struct {
	mu sync.Mutex
	// known wait for Accept alone.
	known, waiting []arrival
	// usedUntil is up to when the rate has been used.
	usedUntil time.Time
	// admitted and knownAt are when an address was let in, and when a caller of it became known.
	admitted, knownAt recent
	// refused is how many connections were closed because too many waited.
	refused int64
	// changed has a value after a connection has come.
	changed chan struct{}
}

// arrival is a connection that waits.
type arrival struct {
	net.Conn
	of netip.Prefix
	// lastAdmitted is when its address was let in last; zero if it never was.
	lastAdmitted time.Time
}

func newArrivals() *arrivals { return &arrivals{changed: make(chan struct{}, 1)} }

// add has a connection wait. If too many wait, the newest of the address that was let in last is
// closed.
func (a *arrivals) add(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := addressOf(conn.RemoteAddr().String())
	now := time.Now()
	if knew := a.knownAt.last(of); !knew.IsZero() && now.Sub(knew) < knownFor {
		a.known = append(a.known, arrival{Conn: conn, of: of})
	} else {
		a.waiting = append(a.waiting, arrival{conn, of, a.admitted.last(of)})
		a.bound()
	}
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// bound closes a connection if too many wait. It needs the lock.
func (a *arrivals) bound() {
	if len(a.waiting) <= arrivalsWaiting {
		return
	}
	last := 0
	for i, w := range a.waiting {
		if !w.lastAdmitted.Before(a.waiting[last].lastAdmitted) {
			last = i
		}
	}
	_ = a.take(last).Close()
	a.refused++
}

// next returns the connection that is let in now. If there is none, it returns nil and after what
// time there will be one, which is zero if none waits.
func (a *arrivals) next() (net.Conn, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) > 0 {
		first := a.known[0]
		a.known = a.known[1:]
		return first.Conn, 0
	}
	if len(a.waiting) == 0 {
		return nil, 0
	}
	now := time.Now()
	if early := now.Add(-arrivalsAtOnce * arrivalPause); a.usedUntil.Before(early) {
		a.usedUntil = early
	}
	if wait := a.usedUntil.Add(arrivalPause).Sub(now); wait > 0 {
		return nil, wait
	}
	a.usedUntil = a.usedUntil.Add(arrivalPause)
	return a.admitFirst(now), 0
}

// admitFirst needs the lock.
func (a *arrivals) admitFirst(now time.Time) net.Conn {
	first := 0
	for i, w := range a.waiting {
		if w.lastAdmitted.Before(a.waiting[first].lastAdmitted) {
			first = i
		}
	}
	in := a.take(first)
	a.admitted.note(in.of, now)
	for i := range a.waiting {
		if a.waiting[i].of == in.of {
			a.waiting[i].lastAdmitted = now
		}
	}
	return in.Conn
}

// take needs the lock.
func (a *arrivals) take(i int) arrival {
	taken := a.waiting[i]
	a.waiting = append(a.waiting[:i], a.waiting[i+1:]...)
	return taken
}

// becomesKnown notes that a caller of an address is known.
func (a *arrivals) becomesKnown(of netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.knownAt.note(of, time.Now())
}

// close closes what waits.
func (a *arrivals) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range append(a.known, a.waiting...) {
		_ = w.Close()
	}
	a.known, a.waiting = nil, nil
}

// numbers returns how many connections wait, and how many were closed so far.
func (a *arrivals) numbers() (waiting int, refused int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting), a.refused
}

// recentAddresses bounds the addresses of a recent.
const recentAddresses = 4096

// recent has a time for each of the addresses that were noted last: at least the last
// recentAddresses of them, and at most twice as many.
type recent struct{ young, old map[netip.Prefix]time.Time }

// note sets the time of an address.
func (r *recent) note(of netip.Prefix, at time.Time) {
	if r.young == nil || len(r.young) >= recentAddresses {
		r.young, r.old = make(map[netip.Prefix]time.Time), r.young
	}
	r.young[of] = at
}

// last returns the time of an address, zero if it has none.
func (r *recent) last(of netip.Prefix) time.Time {
	if at, found := r.young[of]; found {
		return at
	}
	return r.old[of]
}

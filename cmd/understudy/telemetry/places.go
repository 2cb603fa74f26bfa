package telemetry

import "context"

// minorPart is the part of a queue that minor records may take: one of so many. They have no
// other places, and what is not minor has no others than the rest: so neither ever lacks a place
// since there was much of the other.
const minorPart = 4

// reservation is the kind of place that a record has in the queues.
type reservation int

// The kinds of places.
const (
	noPlace reservation = iota
	place
	minorPlace
)

// reservationKey is the key of a reservation in a context.
type reservationKey struct{}

// reservationOf is that of the record that is emitted with a context.
func reservationOf(ctx context.Context) reservation {
	r, _ := ctx.Value(reservationKey{}).(reservation)
	return r
}

// reserve takes n places for records that are to come, or none, and reports whether there were
// so many.
func (q *queue) reserve(n int, minor bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	forMinor := q.size / minorPart
	held, places := q.held-q.minor, q.size-forMinor
	if minor {
		held, places = q.minor, forMinor
	}
	if q.closed || held+n > places {
		return false
	}
	q.hold(n, minor)
	return true
}

// release gives n reserved places back.
func (q *queue) release(n int, minor bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hold(-n, minor)
}

// hold changes how many places are taken. The queue is locked.
func (q *queue) hold(n int, minor bool) {
	q.held += n
	if minor {
		q.minor += n
	}
}

// places are those of all queues that a record goes to. They implement audit.Places.
type places []*queue

// Reserve takes n places in each queue, or none in any.
func (p places) Reserve(n int, minor bool) bool {
	for i, q := range p {
		if q.reserve(n, minor) {
			continue
		}
		p[:i].Release(n, minor)
		q.drops.add(dropQueueFull, n)
		return false
	}
	return true
}

// Release gives n places in each queue back that were reserved.
func (p places) Release(n int, minor bool) {
	for _, q := range p {
		q.release(n, minor)
	}
}

// Reserved returns a context with which a record takes the places that were reserved.
func (places) Reserved(ctx context.Context, minor bool) context.Context {
	kind := place
	if minor {
		kind = minorPlace
	}
	return context.WithValue(ctx, reservationKey{}, kind)
}

package telemetry

import "context"

// minorPart is the part of a queue that minor records may take: one of so many. They have no
// other slots, and what is not minor has no others than the rest: so neither ever lacks a slot
// since there was much of the other.
const minorPart = 4

// reservation is the kind of slot that a record has in the queues.
type reservation int

// The kinds of slots.
const (
	noSlot reservation = iota
	slot
	minorSlot
)

// reservationKey is the key of a reservation in a context.
type reservationKey struct{}

// reservationOf is that of the record that is emitted with a context.
func reservationOf(ctx context.Context) reservation {
	r, _ := ctx.Value(reservationKey{}).(reservation)
	return r
}

// reserve takes n slots for records that are to come, or none, and reports whether there were
// so many.
func (q *queue) reserve(n int, minor bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	forMinor := q.size / minorPart
	held, slots := q.held-q.minor, q.size-forMinor
	if minor {
		held, slots = q.minor, forMinor
	}
	if q.closed || held+n > slots {
		return false
	}
	q.hold(n, minor)
	return true
}

// release gives n reserved slots back.
func (q *queue) release(n int, minor bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hold(-n, minor)
}

// hold changes how many slots are taken. The queue is locked.
func (q *queue) hold(n int, minor bool) {
	q.held += n
	if minor {
		q.minor += n
	}
}

// queueSlots are those of all queues that a record goes to. They implement audit.Slots.
type queueSlots []*queue

// Reserve takes n slots in each queue, or none in any.
func (p queueSlots) Reserve(n int, minor bool) bool {
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

// Release gives n slots in each queue back that were reserved.
func (p queueSlots) Release(n int, minor bool) {
	for _, q := range p {
		q.release(n, minor)
	}
}

// Reserved returns a context with which a record takes the slots that were reserved.
func (queueSlots) Reserved(ctx context.Context, minor bool) context.Context {
	kind := slot
	if minor {
		kind = minorSlot
	}
	return context.WithValue(ctx, reservationKey{}, kind)
}

package telemetry

import "context"

// reservedKey is the key of whether a record has its place in the queues.
type reservedKey struct{}

// isReserved reports whether the record that is emitted with a context has its place.
func isReserved(ctx context.Context) bool {
	reserved, _ := ctx.Value(reservedKey{}).(bool)
	return reserved
}

// reserve takes a place for a record that is to come, and reports whether there is one among
// the first so many.
func (q *queue) reserve(first int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.held >= first {
		return false
	}
	q.held++
	return true
}

// release gives a reserved place back.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held--
}

// places are those of all queues that a record goes to. They implement audit.Places.
type places []*queue

// Reserve takes a place in each queue, or in none. A minor record gets one as long as all of
// them are less than half full.
func (p places) Reserve(minor bool) bool {
	for i, q := range p {
		first := q.size
		if minor {
			first = q.size / 2
		}
		if q.reserve(first) {
			continue
		}
		for _, taken := range p[:i] {
			taken.release()
		}
		q.drops.add(dropQueueFull, 1)
		return false
	}
	return true
}

// Reserved returns a context with which a record takes the places that were reserved.
func (places) Reserved(ctx context.Context) context.Context {
	return context.WithValue(ctx, reservedKey{}, true)
}

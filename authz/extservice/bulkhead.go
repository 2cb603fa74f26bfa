package extservice

import "sync"

// bulkhead bounds the calls under way to each service, so that one that hangs holds no
// more than its own share of the process. It is safe for concurrent use.
type bulkhead struct {
	limit int

	mu sync.Mutex
	// taken :: place → calls under way. Places that nobody takes are not in it: the
	// services of policies that are gone leave nothing behind.
	taken map[place]int
}

// place is the share of a service: one for live calls and one for experiments, which
// cannot take any from the live ones.
type place struct {
	authority string
	shadow    bool
}

func newBulkhead(limit int) *bulkhead { return &bulkhead{limit: limit, taken: make(map[place]int)} }

// enter reports whether there is room for one more call. It never waits.
func (b *bulkhead) enter(p place) bool {
	limit := b.limit
	if p.shadow {
		limit = max(1, limit/4)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken[p] >= limit {
		return false
	}
	b.taken[p]++
	return true
}

// leave gives the room back.
func (b *bulkhead) leave(p place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken[p]--; b.taken[p] == 0 {
		delete(b.taken, p)
	}
}

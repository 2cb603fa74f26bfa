package extservice

import "sync"

// bulkhead bounds the calls under way to each service, so that one that hangs holds no
// more than its own share of the process. It is safe for concurrent use.
type bulkhead struct {
	limit int

	mu sync.Mutex
	// taken :: share → calls under way. Shares that nobody takes are not in it: the
	// services of policies that are gone leave nothing behind.
	taken map[share]int
}

// share is the share of a service: one for live calls and one for experiments, which
// cannot take any from the live ones.
type share struct {
	authority string
	shadow    bool
}

func newBulkhead(limit int) *bulkhead { return &bulkhead{limit: limit, taken: make(map[share]int)} }

// enter reports whether there is room for one more call. It never waits.
func (b *bulkhead) enter(p share) bool {
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
func (b *bulkhead) leave(p share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken[p]--; b.taken[p] == 0 {
		delete(b.taken, p)
	}
}

package diagnostics

import (
	"sync"
	"time"
)

// Occurrences counts what anybody can cause as often as they like, between two reports of it.
// The zero value has counted nothing. It is safe for concurrent use.
type Occurrences struct {
	mu   sync.Mutex
	last time.Time
	// since is how many there were since the last report.
	since int64
}

// Note counts one. It returns how many a report at now has to count, or 0 if there was a
// report less than the time every ago, so that there is to be none.
func (o *Occurrences) Note(now time.Time, every time.Duration) (n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since++
	if !o.last.IsZero() && now.Sub(o.last) < every {
		return 0
	}
	n, o.last, o.since = o.since, now, 0
	return n
}

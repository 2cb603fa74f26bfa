package cache

import "sync/atomic"

// Lookups counts how often the decision on a live request was cached, and how often it had
// to be made although its policy has a cache. All versions of one policy share one, so that
// it only grows. It is safe for concurrent use; a nil one counts nothing.
type Lookups struct{ hits, misses atomic.Int64 }

// Hits is how many decisions were found.
func (l *Lookups) Hits() int64 { return l.hits.Load() }

// Misses is how many decisions were not found.
func (l *Lookups) Misses() int64 { return l.misses.Load() }

func (l *Lookups) count(hit bool) {
	switch {
	case l == nil:
	case hit:
		l.hits.Add(1)
	default:
		l.misses.Add(1)
	}
}

package audit

import (
	"sync"
	"time"
)

const (
	// minorEvery is the time in which one event stands for all that is minor and alike.
	minorEvery = time.Second
	// maxMinorKeys is the number of minor events in that time, without the one for all others.
	maxMinorKeys = 64
)

// minorKey is what minor calls have in common for which one event stands.
type minorKey struct {
	principal, method string
	outcome           outcome
}

// minors counts the calls that change nothing between their events. It needs memory for
// maxMinorKeys keys, anyone who calls how often. The zero value has counted nothing. It is safe for
// concurrent use.
type minors struct {
	mu     sync.Mutex
	counts map[minorKey]*minorCount
	// others are the calls for whose keys there is no room.
	others minorCount
}

// minorCount counts the calls of one key.
type minorCount struct {
	last time.Time
	// since is how many there were since the last event.
	since int64
}

// note counts one. It returns how many an event at now stands for, or 0 if there is to be none.
func (c *minorCount) note(now time.Time) (n int64) {
	c.since++
	if c.recent(now) {
		return 0
	}
	n, c.last, c.since = c.since, now, 0
	return n
}

// recent reports whether the last event was less than minorEvery ago.
func (c *minorCount) recent(now time.Time) bool {
	return !c.last.IsZero() && now.Sub(c.last) < minorEvery
}

// note counts a call. It returns how many an event at now stands for, or 0 if there is to be
// none, and whether that is the event for all keys for which there is no room.
func (m *minors) note(now time.Time, key minorKey) (n int64, others bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.counts[key]
	if c == nil && len(m.counts) >= maxMinorKeys {
		m.forget(now)
	}
	if c == nil && len(m.counts) >= maxMinorKeys {
		return m.others.note(now), true
	}
	if c == nil {
		if m.counts == nil {
			m.counts = make(map[minorKey]*minorCount)
		}
		c = &minorCount{}
		m.counts[key] = c
	}
	return c.note(now), false
}

// forget makes room for other keys. What was counted and had no event yet counts to the others.
func (m *minors) forget(now time.Time) {
	for key, c := range m.counts {
		if !c.recent(now) {
			m.others.since += c.since
			delete(m.counts, key)
		}
	}
}

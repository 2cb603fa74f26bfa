package sidecar

import (
	"context"
	"sync"
	"time"
)

// contact is that with the store. It is safe for concurrent use.
type contact struct {
	mu sync.Mutex
	// reload ends the present wait for changes, so that everything is loaded again; nil while there is none.
	reload context.CancelFunc
	// last is when the store last answered, or when the snapshot file was written
	// that stands in for it.
	last time.Time
	// lost is the store's last error, nil while it answers, and failed when that was.
	lost   error
	failed time.Time
	// marks are what is known of the store's watermark.
	marks watermarks

	// saving is held while the snapshot file is written.
	saving sync.Mutex
}

// reached notes whether the store answered. It returns what it was before.
func (c *contact) reached(err error) (before error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, c.lost = c.lost, err
	if now := time.Now(); err == nil {
		c.last = now
	} else {
		c.failed = now
	}
	return before
}

// waitsAfter is for how long a wait for changes lasts without an error until it counts as begun: a store that is
// lost is asked more often than that.
const waitsAfter = 2 * lastBackoff

// heard notes that the store has answered a heartbeat. If the sidecar waits for changes, of which there may be none for
// days, it is reached. It reports whether it was lost before.
func (c *contact) heard() (again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.reload == nil || c.lost != nil && now.Sub(c.failed) < waitsAfter {
		return false
	}
	again = c.lost != nil
	c.last, c.lost = now, nil
	return again
}

// standIn notes when the snapshot file was written that stands in for the store.
func (c *contact) standIn(written time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = written
}

// follow notes how a wait for changes is ended.
func (c *contact) follow(reload context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reload = reload
}

// loadAgain ends the present wait for changes, if there is one.
func (c *contact) loadAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reload != nil {
		c.reload()
	}
}

// status is what a Status says of the store.
func (c *contact) status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Status{Contact: c.last, Lost: c.lost, WentBack: c.marks.wentBack()}
}

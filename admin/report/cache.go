package report

import (
	"sync"
	"time"
)

const (
	// maxCached bounds the values that a Cache keeps, in bytes.
	maxCached = 64 << 20
	// cached is for how long it keeps those of an experiment that nobody reads.
	cached = time.Minute
)

// Cache keeps what nodes published of experiments that were read, so that only what was
// published since has to be read again: 1,000 nodes publish 16 MB of an experiment, and a
// report is mostly read again and again. A tally has one value under a serial, so that what is
// kept is what would be read. It is safe for concurrent use.
type Cache struct {
	mu sync.Mutex
	// kept :: UID of an experiment → what was read of it last.
	kept map[string]*Kept
	size int
}

// Kept is what was read of an experiment. It is never modified.
type Kept struct {
	// Serials :: tally → serial of the value that is kept.
	Serials map[string]int64

	values map[string][]byte
	size   int
	read   time.Time
	// end drops it.
	end *time.Timer
}

// NewCache returns an empty cache.
func NewCache() *Cache { return &Cache{kept: make(map[string]*Kept)} }

// Of returns what is kept of an experiment; an empty Kept if that is nothing.
func (c *Cache) Of(uid string) *Kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.kept[uid]; k != nil {
		return k
	}
	return &Kept{}
}

// Fill sets the values that were not read since they are kept, which are nil, and keeps all
// that was read of the experiment. The values are shared: nobody may modify them.
func (c *Cache) Fill(uid string, before *Kept, published []Published) {
	kept := &Kept{Serials: make(map[string]int64, len(published)), values: make(map[string][]byte, len(published)), read: time.Now()}
	for i := range published {
		p := &published[i]
		if p.Value == nil {
			p.Value = before.values[p.Tally]
		}
		kept.Serials[p.Tally], kept.values[p.Tally] = p.Serial, p.Value
		kept.size += len(p.Tally) + len(p.Value)
	}
	c.keep(uid, kept)
}

// Drop forgets what is kept of an experiment, such as what cannot be decoded.
func (c *Cache) Drop(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(uid)
}

// keep keeps what was read of an experiment in place of what is kept of it, and drops others,
// those first that were not read for the longest time, until there is room.
func (c *Cache) keep(uid string, k *Kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(uid)
	if k.size == 0 || k.size > maxCached {
		return
	}
	for c.size+k.size > maxCached {
		c.drop(c.oldest())
	}
	k.end = time.AfterFunc(cached, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.kept[uid] == k {
			c.drop(uid)
		}
	})
	c.kept[uid], c.size = k, c.size+k.size
}

// oldest returns the experiment that was not read for the longest time.
func (c *Cache) oldest() (uid string) {
	for other, k := range c.kept {
		if uid == "" || k.read.Before(c.kept[uid].read) {
			uid = other
		}
	}
	return uid
}

// drop forgets what is kept of an experiment, if there is something.
func (c *Cache) drop(uid string) {
	if k := c.kept[uid]; k != nil {
		k.end.Stop()
		c.size -= k.size
		delete(c.kept, uid)
	}
}

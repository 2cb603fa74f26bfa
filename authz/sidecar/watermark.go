package sidecar

import (
	"context"
	"time"

	"understudy/authz"
)

// The watermark of a project is the number of its last change, changes of operations and experiments
// not counted. It never goes back, unless the store does: it was restored from a copy, or a replica
// that lagged has become primary. So each node remembers the highest that it has seen, also in the
// snapshot file, and reports it: a server of the admin API, which may have started since, takes
// changes of owners only as long as the store's is lower. A sidecar that has no snapshot file learns
// in the same way that others have seen changes which it cannot know. A store without a watermark
// is empty, or of an earlier version: neither has gone back.

// watermarks are what is known of the store's watermark.
type watermarks struct {
	// known is the highest that was seen, by this process or the one that wrote the snapshot file.
	known int64
	// stored is what the store said last, and ahead how many other nodes know a higher one.
	stored int64
	ahead  int
	// saved is what the snapshot file has, and savedAt when it was written with it.
	saved   int64
	savedAt time.Time
}

// wentBack reports whether the store has lost its last changes.
func (w watermarks) wentBack() bool { return w.stored > 0 && (w.known > w.stored || w.ahead > 0) }

// sawWatermark notes a watermark that was seen.
func (c *contact) sawWatermark(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks.known = max(c.marks.known, n)
}

// compare notes what the store says of its watermark. It returns what was known before, and what is now.
func (c *contact) compare(head authz.Head) (before, now watermarks) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before = c.marks
	c.marks.known = max(c.marks.known, head.Watermark)
	c.marks.stored, c.marks.ahead = head.Watermark, head.Ahead
	return before, c.marks
}

// savedWatermark notes that the snapshot file was written with a watermark.
func (c *contact) savedWatermark(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks.saved, c.marks.savedAt = n, time.Now()
}

// watermarks returns what is known.
func (c *contact) watermarks() watermarks {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marks
}

// watermarkSaved is the shortest time after which the snapshot file is written again for a
// watermark alone. A project may have many changes that are not about the policies of a sidecar.
const watermarkSaved = time.Minute

// compareWatermark logs when it is seen that the store has gone back, and when it has not any more.
func (s *Sidecar) compareWatermark(head authz.Head) {
	before, now := s.store.compare(head)
	switch {
	case now.wentBack() && !before.wentBack():
		s.log.Warn("the store has gone back: sidecars have seen later changes than it has. "+authz.WentBackHelp,
			"seen", now.known, "stored", now.stored, "sidecars_ahead", now.ahead, "location", string(s.config.Location))
	case !now.wentBack() && before.wentBack():
		s.log.Info("the store has not gone back any more, or its older data was accepted")
	}
	if now.known > now.saved && time.Since(now.savedAt) >= watermarkSaved {
		s.save()
	}
}

// saveWatermark writes the snapshot file for the last time, if the store has a later watermark than
// the file. A file that is the store of this process alone may be replaced before the next start.
func (s *Sidecar) saveWatermark(ctx context.Context) {
	if s.config.SnapshotFile == "" || s.store.status().Lost != nil {
		return
	}
	if head, err := s.config.Feed.Heartbeat(ctx, s.node(s.current.Load())); err == nil {
		s.store.compare(head)
	}
	if marks := s.store.watermarks(); marks.known > marks.saved {
		s.save()
	}
}

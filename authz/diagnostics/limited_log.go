package diagnostics

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// LimitedLog logs lines of one kind, of which anybody could cause any number: at most
// so many in each interval, at once. Of those that come beyond that only the last one is
// logged, when the interval is over, with the number of all others as left_out. So the
// first line is never late, and the end of a series is never lost. It is safe for
// concurrent use.
type LimitedLog struct {
	log   *slog.Logger
	lines int
	every time.Duration

	mu sync.Mutex
	// used is the number of lines of the present interval; zero means that none is
	// running.
	used int
	// last is what was not logged in it, and omitted how many that were; nil and zero
	// if all was logged.
	last    *line
	omitted int
}

// line is what LimitedLog.Log was called with.
type line struct {
	level   slog.Level
	message string
	about   []slog.Attr
}

// NewLimitedLog returns a log of at most so many lines in an interval. A nil logger logs
// nothing.
func NewLimitedLog(log *slog.Logger, lines int, every time.Duration) *LimitedLog {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &LimitedLog{log: log, lines: max(1, lines), every: every}
}

// Log logs a line, at once or when the interval is over.
func (l *LimitedLog) Log(ctx context.Context, level slog.Level, message string, about ...slog.Attr) {
	if !l.log.Enabled(ctx, level) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used >= l.lines {
		l.last = &line{level, message, about}
		l.omitted++
		return
	}
	if l.used == 0 {
		time.AfterFunc(l.every, l.renew)
	}
	l.used++
	l.log.LogAttrs(ctx, level, message, about...)
}

// renew begins an interval. What was left out in the one before has the first line of it.
func (l *LimitedLog) renew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = 0
	if l.last == nil {
		return
	}
	l.used = 1
	about := append(l.last.about[:len(l.last.about):len(l.last.about)], slog.Int("left_out", l.omitted-1))
	l.log.LogAttrs(context.Background(), l.last.level, l.last.message, about...)
	l.last, l.omitted = nil, 0
	time.AfterFunc(l.every, l.renew)
}

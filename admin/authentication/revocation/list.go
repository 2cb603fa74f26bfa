package revocation

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"understudy/admin/access"
	"understudy/authz/diagnostics"
)

// List is who is refused, as a file has it. It is safe for concurrent use. A nil List refuses
// nobody.
type List struct {
	path string
	log  *slog.Logger
	// refused is bounded: anyone who is refused may ask as often as they like.
	refused *diagnostics.LimitedLog
	// members are those that are refused.
	members atomic.Pointer[members]
	// problem is what is wrong with the file; nil if nothing is.
	problem atomic.Pointer[string]
	// failures counts each time that the file became bad.
	failures atomic.Int64
	// last is what the last reading found, nil if that was not good. Follow alone has it.
	last members
}

// members :: those of a file.
type members map[string]bool

var _ access.Revocations = (*List)(nil)

// maxLines is how many lines about refused principals the log has in each linesEvery at most.
const maxLines, linesEvery = 10, time.Minute

// Open reads the file for the first time. An error names it and the line.
func Open(path string, log *slog.Logger) (*List, error) {
	found, err := read(path)
	if err != nil {
		return nil, err
	}
	l := &List{path: path, log: log, refused: diagnostics.NewLimitedLog(log, maxLines, linesEvery), last: found}
	l.members.Store(&found)
	return l, nil
}

// Revoked implements access.Revocations.
func (l *List) Revoked(p access.Principal) bool {
	if l == nil || !p.Known() {
		return false
	}
	is := *l.members.Load()
	if is[p.Member] || is[access.AllAuthenticated] {
		return true
	}
	for _, group := range p.Groups {
		if is[access.MemberOfGroup(group)] {
			return true
		}
	}
	return false
}

// Refuses is Revoked of a principal that asks, which the log says.
func (l *List) Refuses(ctx context.Context, p access.Principal) bool {
	revoked := l.Revoked(p)
	if revoked {
		l.refused.Log(ctx, slog.LevelWarn, "a revoked principal asks, and is refused", slog.String("principal", diagnostics.Bounded(p.Member)))
	}
	return revoked
}

// Failures returns how often the file became bad.
func (l *List) Failures() int64 { return l.failures.Load() }

// Problem is what is wrong with the file now; empty if nothing is.
func (l *List) Problem() string {
	if l == nil {
		return ""
	}
	if p := l.problem.Load(); p != nil {
		return *p
	}
	return ""
}

// Follow reads the file again and again until ctx is done.
func (l *List) Follow(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			l.refresh()
		}
	}
}

// refresh reads the file once.
func (l *List) refresh() {
	found, err := read(l.path)
	l.report(err)
	before := *l.members.Load()
	next := maps.Clone(found)
	if err != nil || !maps.Equal(found, l.last) {
		next = maps.Clone(before)
		maps.Copy(next, found)
	}
	if l.last = found; err != nil {
		l.last = nil
	}
	if maps.Equal(next, before) {
		return
	}
	l.members.Store(&next)
	l.log.Info("another list of revoked principals is used", "file", l.path, "members", len(next))
}

// report logs and counts a failure once, and notes what is wrong.
func (l *List) report(err error) {
	before := l.Problem()
	if err == nil {
		l.problem.Store(nil)
		if before != "" {
			l.log.Info("the file of revoked principals can be read again", "file", l.path)
		}
		return
	}
	text := err.Error()
	l.problem.Store(&text)
	if text != before {
		l.failures.Add(1)
		l.log.Error("the file of revoked principals cannot be used; principals that were revoked stay so", "error", text, "members", len(*l.members.Load()))
	}
}

// read returns the members of a file. With an error they are those of its good lines.
func read(path string) (members, error) {
	content, err := readBounded(path)
	if err != nil {
		return nil, fmt.Errorf("%w; name a file that this process may read, empty if nobody is revoked", err)
	}
	found, err := parse(content)
	if err != nil {
		return found, fmt.Errorf("%s: %w", path, err)
	}
	return found, nil
}

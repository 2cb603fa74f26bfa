package sidecar

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"understudy/authz"
	"understudy/authz/background"
)

const (
	// firstBackoff and lastBackoff bound the pause before a lost store is asked
	// again.
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 3 * time.Second
)

// follow keeps the snapshot up to date until ctx is done.
func (s *Sidecar) follow(ctx context.Context) {
	s.removeTemps()
	for {
		cursor, ok := s.load(ctx)
		if !ok {
			return
		}
		s.next(ctx, cursor)
		// Sidecars that missed the same changes do not load at the same moment, nor
		// without end from a store that never keeps them.
		if !background.Sleep(ctx, firstBackoff) {
			return
		}
	}
}

// load makes a snapshot of everything, trying until it can. While the store is
// lost and there is no snapshot at all, the file stands in.
func (s *Sidecar) load(ctx context.Context) (authz.Cursor, bool) {
	restore := sync.OnceFunc(func() { s.restore(ctx) })
	// Anyone who sees the saved policies sees that the store is lost; the log says so
	// when it is known whether there are any.
	lose := func(err error) {
		before := s.store.reached(err)
		restore()
		s.logReached(before, err)
	}
	for pause := firstBackoff; ; pause = min(2*pause, lastBackoff) {
		on, update, err := s.loadOnce(ctx, lose)
		if err == nil {
			s.reached(nil)
			s.apply(ctx, on, update)
			s.save()
			return update.Cursor, true
		}
		if ctx.Err() != nil {
			return authz.Cursor{}, false
		}
		lose(err)
		if !background.Sleep(ctx, pause) {
			return authz.Cursor{}, false
		}
	}
}

// answerTime is for how long a sidecar without policies waits for the store alone.
const answerTime = time.Second

var errNoAnswer = fmt.Errorf("it has not answered for %v, and is still asked", answerTime)

// ask asks the store for everything. A store that is slow to answer, or that never will
// because its connection is half open, is reported to lose while it is waited for, if
// there is nothing to decide by yet.
func (s *Sidecar) ask(ctx context.Context, lose func(error)) (authz.Update, error) {
	if s.current.Load() != nil {
		return s.config.Feed.Load(ctx, s.config.Scope)
	}
	type answer struct {
		update authz.Update
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		update, err := s.config.Feed.Load(ctx, s.config.Scope)
		answers <- answer{update, err}
	}()
	timer := time.NewTimer(answerTime)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.update, a.err
	case <-timer.C:
		lose(errNoAnswer)
	}
	a := <-answers
	return a.update, a.err
}

// loadOnce asks the store for everything. The update that it returns goes on top of a
// snapshot that has what stays of the present one: entries of the policies in the
// update, so that what did not change is not compiled again, and what does not compile
// keeps its last good version; and the policies that the store has lost.
func (s *Sidecar) loadOnce(ctx context.Context, lose func(error)) (*snapshot, authz.Update, error) {
	update, err := s.ask(ctx, lose)
	if err != nil {
		return nil, authz.Update{}, err
	}
	s.warnOfMemory(update, readMemory().limit)
	known := s.lastKnown(ctx)
	missing, err := s.missingFrom(ctx, known, update)
	if err != nil {
		return nil, authz.Update{}, err
	}
	return known.kept(update, missing), update, nil
}

// kept returns what of a snapshot stays under an update of everything: what the update has, and
// what the store has lost.
func (s *snapshot) kept(update authz.Update, missing map[authz.PolicyName]bool) *snapshot {
	on := &snapshot{policies: make(map[authz.PolicyName]*entry), deleted: make(map[authz.PolicyName]deletion)}
	for name, e := range s.policies {
		_, there := update.Policies[name]
		switch {
		case there:
			on.policies[name] = e
		case missing[name]:
			lost := *e
			lost.missing, lost.stale = true, false
			on.policies[name] = &lost
		}
	}
	for name, d := range s.deleted {
		if _, there := update.Policies[name]; there {
			on.deleted[name] = d
		}
	}
	return on
}

// next applies changes as they come, until everything has to be loaded again.
func (s *Sidecar) next(ctx context.Context, cursor authz.Cursor) {
	ctx, reload := context.WithCancel(ctx)
	defer reload()
	s.store.follow(reload)
	defer s.store.follow(nil)
	for pause := firstBackoff; ; {
		update, err := s.config.Feed.Next(ctx, s.config.Scope, cursor)
		switch {
		case err == nil:
			s.reached(nil)
			pause = firstBackoff
			s.apply(ctx, s.current.Load(), update)
			cursor = update.Cursor
			s.save()
		case ctx.Err() != nil:
			return
		case errors.Is(err, authz.ErrTrimmed):
			s.log.Info("changes were missed; loading everything again", "sequence", cursor.Sequence)
			return
		default:
			s.reached(err)
			if !background.Sleep(ctx, pause) {
				return
			}
			pause = min(2*pause, lastBackoff)
		}
	}
}

// apply compiles an update off the request path, on top of a snapshot, and makes the
// result what requests are decided by.
func (s *Sidecar) apply(ctx context.Context, on *snapshot, update authz.Update) {
	next := s.with(ctx, on, update)
	if ctx.Err() != nil {
		return
	}
	s.resizeCaches(next)
	s.applying.Lock()
	before := s.current.Swap(next)
	s.applying.Unlock()
	// What waits for experiments that are gone is dropped before the change counts as applied.
	s.candidates.closeExcept(next)
	s.countActive()
	s.markWhenCompiled(next)
	s.logFailures(before, next, update)
	for _, f := range storeFaults {
		s.logFault(f, before, next)
	}
	if before == nil {
		close(s.ready)
	}
	s.log.Info("policies applied", "sequence", update.Cursor.Sequence,
		"changed", len(update.Policies), "policies", len(next.policies))
	s.askForHeartbeat()
}

// logFailures logs and counts what of an update could not be applied, and at the start what else
// could not.
func (s *Sidecar) logFailures(before, next *snapshot, update authz.Update) {
	for name, e := range next.policies {
		if _, changed := update.Policies[name]; !changed && before != nil {
			continue
		}
		for _, f := range e.failures {
			s.logFailure(f)
		}
	}
}

package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"understudy/authz/rehearsal/wire"
)

// cause is why a child ended: for one of those that it notices itself, or for one that
// is seen from here. It is a metric label.
type cause = wire.Cause

const (
	causeMemory      = wire.CauseMemory
	causeStuck       = wire.CauseStuck
	causeCompileTime = wire.CauseCompileTime

	// causeUnresponsive: it worked, and said nothing.
	causeUnresponsive cause = "unresponsive"
	// causeCrashed: it failed, or sent what it must not.
	causeCrashed cause = "crashed"
	// causeKilled: somebody else ended it, such as a system without memory.
	causeKilled cause = "killed"
	// causeStart: it could not be started.
	causeStart cause = "start"

	// causeIdle: nobody needed it. It is not counted.
	causeIdle cause = "idle"
	// causeClosed: the supervisor ended. It is not counted.
	causeClosed cause = "closed"
)

var causes = []cause{
	causeMemory, causeStuck, causeCompileTime, causeUnresponsive, causeCrashed, causeKilled, causeStart,
}

// end is how a child ended.
type end struct {
	cause cause
	// detail says more, for the log.
	detail string
	// lane and job are those that the child blames itself; zero if it does not know.
	lane, job uint64
}

// CrashError is the error of what ended the rehearsal process.
type CrashError struct {
	cause  cause
	detail string
	// memory and compileTime are the bounds.
	memory      int64
	compileTime time.Duration
}

// Error says what happened, and names the bound.
func (g *CrashError) Error() string {
	switch g.cause {
	case causeMemory:
		return fmt.Sprintf("it takes more than the %d MiB of memory that the rehearsal process has (--rehearsal-memory)", g.memory>>20)
	case causeCompileTime:
		return fmt.Sprintf("it takes more than %v of processor time to compile", g.compileTime)
	case causeStuck:
		return "it goes on after its time is over, and cannot be cancelled"
	case causeUnresponsive:
		return "it keeps the rehearsal process from answering"
	case causeKilled:
		return "the rehearsal process was killed while it was at work, such as by a system without memory"
	}
	return "it ends the rehearsal process (" + g.detail + ")"
}

const (
	// strikesToSuspend within strikePeriod have a lane suspended.
	strikesToSuspend = 3
	strikePeriod     = 10 * time.Minute
	// unattributedToSerial is after how many deaths that nobody causes alone, each within
	// strikePeriod of the one before, one task at a time is under way, and serialPeriod is for how long.
	unattributedToSerial = 2
	serialPeriod         = 10 * time.Minute
)

// suspicion is what is known of crashes that are not attributed yet.
type suspicion struct {
	// suspects are to be tried alone, the first one now, and several says that there was more than one.
	suspects []suspect
	several  bool
	// serial is until when one task at a time is under way.
	serial time.Time
	// unattributed counts consecutive crashes that could not be blamed on one policy, the last one at
	// lastUnattributed.
	unattributed     int
	lastUnattributed time.Time
}

// suspect is what was being done in a lane when the child died.
type suspect struct {
	lane *lane
	// task is nil for the compilation of the lane's policy.
	task *task
}

// attribution is what a death means for the lanes.
type attribution struct {
	// culprit is the lane that caused it; nil if that is not known yet, or none did.
	culprit *lane
	crash   *CrashError
	// task is what ended the child, which is over. It is nil for a compilation.
	task *task
	// compiled is called if the policy ended the child by being compiled.
	compiled func([]byte, error)
	// dropped are the tasks of a lane that is suspended now.
	dropped   []*task
	suspended bool
	suspects  []suspect
}

// restart says when the next child may be started.
type restart int

const (
	// later: nobody knows why the child ended, and the next may end as soon. Each pause is
	// longer than the one before.
	later restart = iota
	// soon: what ended the child is known, and is tried again a few times at most.
	soon
	// atOnce: the end was expected.
	atOnce
)

// next says when the child after one that ended so may be started.
func (a attribution) next(e end) restart {
	switch {
	case e.cause == causeKilled:
		// Who kills the child from outside may have good reasons to.
		return later
	case a.culprit != nil, len(a.suspects) == 1:
		return soon
	}
	return later
}

// attribute puts what was under way back into the queues, and finds out who caused a death, or
// who may have. alone says that the child was never asked for anything else. The mutex is held.
func (s *Supervisor) attribute(e end, alone bool) attribution {
	var suspects []suspect
	var blamed *suspect
	for _, l := range s.lanes {
		first := l.putBack()
		if first == nil {
			continue
		}
		one := suspect{l, first}
		if first.internal {
			one.task = nil
		}
		suspects = append(suspects, one)
		if l.number == e.lane && first.job == e.job {
			blamed = &one
		}
	}
	slices.SortFunc(suspects, func(a, b suspect) int { return int(a.lane.number) - int(b.lane.number) })
	switch {
	case blamed != nil:
		suspects = []suspect{*blamed}
	case e.lane != 0:
		// It was closed in the meantime.
		return attribution{}
	}
	s.several = len(suspects) > 1
	if len(suspects) == 1 && (alone || suspects[0].lane.source != nil) {
		return s.strike(suspects[0], e)
	}
	// What the API is asked to accept is refused for what it takes itself, and not for what
	// other policies take at the same time: it is tried in a child that does nothing else.
	s.suspects = suspects
	return attribution{suspects: suspects}
}

// strike holds a death against a lane. The mutex is held.
func (s *Supervisor) strike(culprit suspect, e end) attribution {
	s.unattributed = 0
	s.suspects = slices.DeleteFunc(s.suspects, func(other suspect) bool { return other.lane == culprit.lane })
	l := culprit.lane
	now := time.Now()
	l.strikes = append(slices.DeleteFunc(l.strikes, func(at time.Time) bool { return now.Sub(at) > strikePeriod }), now)
	if e.cause == causeKilled && len(l.strikes) < strikesToSuspend {
		// It may have nothing to do with it, and is done again.
		return attribution{culprit: l}
	}
	a := attribution{culprit: l, crash: &CrashError{e.cause, e.detail, s.config.Memory, s.config.CompileTime}, task: culprit.task}
	if a.task == nil {
		a.compiled, l.wanted = l.compiled, false
	} else {
		over := func(t *task) bool { return t == a.task }
		l.queue, l.examinations = slices.DeleteFunc(l.queue, over), slices.DeleteFunc(l.examinations, over)
	}
	if len(l.strikes) >= strikesToSuspend && l.suspended == nil {
		l.suspended, a.suspended = a.crash, true
		a.dropped = l.takeAll()
	}
	return a
}

// finish ends the tasks that are over. The mutex is not held.
func (a attribution) finish() {
	if a.task != nil {
		a.task.finish(nil, a.crash)
	}
	if a.compiled != nil {
		a.compiled(nil, a.crash)
	}
	for _, t := range a.dropped {
		t.finish(nil, a.crash)
	}
}

// clear takes those suspects from the list that have been tried, or are gone. The mutex is
// held.
func (s *Supervisor) clear(tried func(suspect) bool) {
	before := len(s.suspects)
	if before == 0 {
		s.wakeSerial()
		return
	}
	s.suspects = slices.DeleteFunc(s.suspects, tried)
	if len(s.suspects) == before {
		return
	}
	if len(s.suspects) == 0 && s.several {
		now := time.Now()
		if now.Sub(s.lastUnattributed) > strikePeriod {
			s.unattributed = 0
		}
		s.lastUnattributed = now
		if s.unattributed++; s.unattributed >= unattributedToSerial {
			s.serial = time.Now().Add(serialPeriod)
			s.log.Warn("the rehearsal process ended repeatedly while several policies were at work, and none of them alone ends it: "+
				"one is evaluated at a time for a while; --rehearsal-memory may be too little for all of them", "for", serialPeriod)
		}
	}
	s.wakeAll()
}

// wakeSerial wakes the lanes that wait for their turn while one task at a time is under way.
// The mutex is held.
func (s *Supervisor) wakeSerial() {
	if s.serial.IsZero() {
		return
	}
	if time.Now().After(s.serial) {
		s.serial = time.Time{}
	}
	s.wakeAll()
}

// wakeAll has all lanes look whether they may go on. The mutex is held.
func (s *Supervisor) wakeAll() {
	for _, l := range s.lanes {
		l.changed.Signal()
	}
}

// report counts and logs a death.
func (s *Supervisor) report(e end, a attribution) {
	s.metrics.restarted(context.Background(), e.cause)
	about := []any{"cause", string(e.cause), "detail", e.detail}
	if a.culprit != nil {
		about = append(about, "charged", a.culprit.name)
	}
	if len(a.suspects) > 0 {
		var names []string
		for _, one := range a.suspects {
			names = append(names, one.lane.name)
		}
		about = append(about, "tried_alone_next", names)
	}
	s.log.Warn("the rehearsal process ended and is started again; live decisions are not affected", about...)
	if a.suspended {
		s.metrics.suspended(context.Background())
		what := "an experiment ended the rehearsal process again and again, and is not evaluated any " +
			"more, until its content changes or it is started again; its records are errors"
		if a.culprit.suspension > 0 {
			what = "a live policy ended the rehearsal process again and again; for a while its decisions are not verified"
		}
		s.log.LogAttrs(context.Background(), slog.LevelWarn, what, slog.String("resource", a.culprit.name), slog.String("reason", a.crash.Error()))
	}
}

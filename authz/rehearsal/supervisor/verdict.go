package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"understudy/authz/rehearsal/wire"
)

// cause is why a child ended: for one of those that it can tell by itself, or for one that
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

// Guilt is the error of what ended the rehearsal process.
type Guilt struct {
	cause  cause
	detail string
	// memory and compileTime are the bounds.
	memory      int64
	compileTime time.Duration
}

// Error says what happened, and names the bound.
func (g *Guilt) Error() string {
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
	// chargesToSuspend within chargePeriod have a lane suspended.
	chargesToSuspend = 3
	chargePeriod     = 10 * time.Minute
	// innocentToSerial is after how many deaths that nobody causes alone, each within
	// chargePeriod of the one before, one task at a time is under way, and serialPeriod is for how long.
	innocentToSerial = 2
	serialPeriod     = 10 * time.Minute
)

// suspect is what was being done in a lane when the child died.
type suspect struct {
	lane *lane
	// task is nil for the compilation of the lane's policy.
	task *task
}

// verdict is what a death means for the lanes.
type verdict struct {
	// guilty is the lane that caused it; nil if that is not known yet, or none did.
	guilty *lane
	guilt  *Guilt
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
func (v verdict) next(e end) restart {
	switch {
	case e.cause == causeKilled:
		// Who kills the child from outside may have good reasons to.
		return later
	case v.guilty != nil, len(v.suspects) == 1:
		return soon
	}
	return later
}

// judge puts what was under way back into the queues, and finds out who caused a death, or
// who may have. alone says that the child was never asked for anything else. The mutex is held.
func (s *Supervisor) judge(e end, alone bool) verdict {
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
		return verdict{}
	}
	s.several = len(suspects) > 1
	if len(suspects) == 1 && (alone || suspects[0].lane.source != nil) {
		return s.charge(suspects[0], e)
	}
	// What the API is asked to accept is refused for what it takes itself, and not for what
	// policies beside it take: it is tried in a child that does nothing else.
	s.suspects = suspects
	return verdict{suspects: suspects}
}

// charge holds a death against a lane. The mutex is held.
func (s *Supervisor) charge(guilty suspect, e end) verdict {
	s.innocent = 0
	s.suspects = slices.DeleteFunc(s.suspects, func(other suspect) bool { return other.lane == guilty.lane })
	l := guilty.lane
	now := time.Now()
	l.charges = append(slices.DeleteFunc(l.charges, func(at time.Time) bool { return now.Sub(at) > chargePeriod }), now)
	if e.cause == causeKilled && len(l.charges) < chargesToSuspend {
		// It may have nothing to do with it, and is done again.
		return verdict{guilty: l}
	}
	v := verdict{guilty: l, guilt: &Guilt{e.cause, e.detail, s.config.Memory, s.config.CompileTime}, task: guilty.task}
	if v.task == nil {
		v.compiled, l.wanted = l.compiled, false
	} else {
		over := func(t *task) bool { return t == v.task }
		l.queue, l.examinations = slices.DeleteFunc(l.queue, over), slices.DeleteFunc(l.examinations, over)
	}
	if len(l.charges) >= chargesToSuspend && l.suspended == nil {
		l.suspended, v.suspended = v.guilt, true
		v.dropped = l.takeAll()
	}
	return v
}

// settle ends the tasks that are over. The mutex is not held.
func (v verdict) settle() {
	if v.task != nil {
		v.task.finish(nil, v.guilt)
	}
	if v.compiled != nil {
		v.compiled(nil, v.guilt)
	}
	for _, t := range v.dropped {
		t.finish(nil, v.guilt)
	}
}

// acquit takes those suspects from the list that have been tried, or are gone. The mutex is
// held.
func (s *Supervisor) acquit(tried func(suspect) bool) {
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
		if now.Sub(s.lastInnocent) > chargePeriod {
			s.innocent = 0
		}
		s.lastInnocent = now
		if s.innocent++; s.innocent >= innocentToSerial {
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
func (s *Supervisor) report(e end, v verdict) {
	s.metrics.restarted(context.Background(), e.cause)
	about := []any{"cause", string(e.cause), "detail", e.detail}
	if v.guilty != nil {
		about = append(about, "charged", v.guilty.name)
	}
	if len(v.suspects) > 0 {
		var names []string
		for _, one := range v.suspects {
			names = append(names, one.lane.name)
		}
		about = append(about, "tried_alone_next", names)
	}
	s.log.Warn("the rehearsal process ended and is started again; live decisions are not affected", about...)
	if v.suspended {
		s.metrics.suspended(context.Background())
		what := "an experiment ended the rehearsal process again and again, and is not evaluated any " +
			"more, until its content changes or it is started again; its records are errors"
		if v.guilty.suspension > 0 {
			what = "a live policy ended the rehearsal process again and again; for a while its decisions are not verified"
		}
		s.log.LogAttrs(context.Background(), slog.LevelWarn, what, slog.String("resource", v.guilty.name), slog.String("reason", v.guilt.Error()))
	}
}

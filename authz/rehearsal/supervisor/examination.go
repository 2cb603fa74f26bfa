package supervisor

import (
	"slices"
	"time"

	"understudy/authz/rehearsal/wire"
)

// Examination is what a candidate is asked about a request for something else than a decision that is
// compared. It waits behind decisions. While there are any, examinations have a fifth of the time of the
// process at most; while there are none, they are done one after the other.
type Examination struct {
	// Prepare makes the request, off the request path. It reports false if there is none to ask: then
	// the caller hears nothing more.
	Prepare func() (wire.DecisionRequest, bool)
	// Bytes is about the memory that the request holds until then.
	Bytes int
	// Kept reports whether it stays when there is no room for another one. Nil means that it goes.
	Kept func() bool
	// Spare says that it goes before all others.
	Spare bool
}

// maxExaminations is how many of a lane may wait.
const maxExaminations = 256

// putExamination adds one. When there is no room for it, others go, and are returned.
// The mutex is held.
func (l *lane) putExamination(t *task) (shed []*task, err error) {
	size, held := int64(t.examination.Bytes), l.s.held.Load()
	for len(l.examinations) >= maxExaminations || held+size > l.examinationBytes {
		i := l.leastNeeded()
		if i < 0 {
			return shed, ErrQueueFull
		}
		oldest := l.examinations[i]
		l.examinations, shed = slices.Delete(l.examinations, i, i+1), append(shed, oldest)
		held -= int64(oldest.examination.Bytes)
		l.s.clear(func(suspect suspect) bool { return suspect.task == oldest })
	}
	l.examinations = append(l.examinations, t)
	l.s.held.Add(size)
	return shed, nil
}

// leastNeeded is the place of the examination that goes first: the oldest spare one, else the oldest that is not kept;
// negative if all are kept. The mutex is held.
func (l *lane) leastNeeded() int {
	if i := slices.IndexFunc(l.examinations, func(t *task) bool { return t.examination.Spare }); i >= 0 {
		return i
	}
	return slices.IndexFunc(l.examinations, func(t *task) bool { return t.examination.Kept == nil || !t.examination.Kept() })
}

const (
	// decidedPerExamined is for how much time of decisions examinations earn one of their own: a fifth.
	decidedPerExamined = 4
	// mostEarned and mostSpent bound what examinations have earned, or have used too early: an answer that
	// took long may have waited for a process that stood still.
	mostEarned = 20 * time.Millisecond
	mostSpent  = -time.Second
)

// earned is time that examinations have earned by that of decisions, less what they have used.
type earned time.Duration

// spend notes how long the child did a task.
func (e *earned) spend(took time.Duration, examination bool) {
	change := took / decidedPerExamined
	if examination {
		change = -took
	}
	*e = earned(min(max(time.Duration(*e)+change, mostSpent), mostEarned))
}

// spend notes how long the child did a task that it has answered, and has examinations go on that may now. What
// nobody waited for costs nothing. The mutex is held.
func (l *lane) spend(t *task) {
	s, now := l.s, time.Now()
	since := t.sent
	if l.lastAnswer.After(since) {
		since = l.lastAnswer
	}
	l.lastAnswer = now
	before := s.earned
	if !isExamination(t) || !s.idle() {
		s.earned.spend(now.Sub(since), isExamination(t))
	}
	if !l.decides() || before <= 0 && s.earned > 0 {
		s.wakeExaminations()
	}
}

// mayExamine reports whether an examination of the lane may be sent. The mutex is held.
func (l *lane) mayExamine() bool {
	s := l.s
	if len(l.examinations) == 0 || slices.ContainsFunc(l.underWay, isExamination) {
		return false
	}
	return s.earned > 0 || s.idle() || len(s.suspects) > 0 && s.suspects[0].task == l.examinations[0]
}

// idle reports whether the child has no decision to make, and may use more of the processors. The mutex is held.
func (s *Supervisor) idle() bool {
	if s.session == nil || s.session.paused || s.session.scarce {
		return false
	}
	for _, l := range s.lanes {
		if l.decides() {
			return false
		}
	}
	return true
}

// decides reports whether the lane has a decision to make now. The mutex is held.
func (l *lane) decides() bool {
	return len(l.queue) > 0 && !l.gathers || slices.ContainsFunc(l.underWay, func(t *task) bool { return !isExamination(t) })
}

// waits reports whether anything of the lane waits to be sent. The mutex is held.
func (l *lane) waits() bool {
	return l.preparing || len(l.queue) > 0 || len(l.examinations) > 0 || l.wanted
}

// wakeExaminations has the lanes go on whose examinations wait. The mutex is held.
func (s *Supervisor) wakeExaminations() {
	for _, l := range s.lanes {
		if len(l.examinations) > 0 {
			l.changed.Signal()
		}
	}
}

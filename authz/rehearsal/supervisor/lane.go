package supervisor

import (
	"slices"
	"sync"
	"time"

	"understudy/authz/rehearsal/wire"
)

const (
	// window is how many tasks of a lane are under way at a time, of which the child does
	// the first: the others are there so that it need not wait for the next.
	window = 64
	// enough is how many tasks do not wait for others any more.
	enough = window / 2
	// windowBytes bounds their payloads, in bytes; one may always be under way.
	windowBytes = 4 << 20
)

// lane is the queue of one policy's tasks, and a policy in the child. Its fields are
// guarded by the mutex of the supervisor.
type lane struct {
	laneOptions
	s      *Supervisor
	number uint64
	// changed is signalled when the lane may go on.
	changed *sync.Cond

	queue []*task
	// examinations wait behind decisions. One at a time is under way.
	examinations []*task
	// lastAnswer is when the last one came: since then the child does what is under way.
	lastAnswer time.Time
	// underWay are the tasks that the session is asked, in order.
	underWay []*task
	sent     int64
	// at is the session in which source was sent to be compiled.
	at *session
	// wanted says that source is to be compiled even if no task waits.
	wanted bool
	batch
	// strikes are the moments at which the lane ended a child.
	strikes   []time.Time
	suspended *CrashError
	closed    bool
}

// laneOptions are what a lane is made with.
type laneOptions struct {
	// name is that of the policy's resource, for logs.
	name string
	// source is the marshalled policy that is compiled in each child before anything else is
	// asked; nil if tasks bring their own.
	source []byte
	// compiled is called with the answer to a compilation of source, or with the crash of
	// one that ends the child. It must not wait.
	compiled func(payload []byte, err error)
	// keeps says that the process stays while the lane is there.
	keeps bool
	// suspension is how long the lane is suspended if it is; zero for good.
	suspension time.Duration
	// room is how many decisions may wait in queue.
	room int
	// examinationBytes bounds the memory of the requests of all lanes that wait to be examined, in bytes.
	examinationBytes int64
}

// batch is what waits to be sent together: each frame wakes up another process.
type batch struct {
	// gathers says that a timer ends the time for which tasks wait for others, and sending that this time
	// is over.
	gathers, sending bool
	// preparing says that a task was taken from a queue and is not sent yet.
	preparing bool
	// unflushed is the session that has a frame which waits for the next; nil if none has.
	unflushed *session
}

// newLane begins a lane, which ends when it is closed.
func (s *Supervisor) newLane(options laneOptions) (*lane, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, ErrShutdown
	}
	s.lastLane++
	l := &lane{laneOptions: options, s: s, number: s.lastLane, changed: sync.NewCond(&s.mu), wanted: options.source != nil}
	s.lanes[l.number] = l
	if l.wanted && s.session == nil {
		s.need()
	}
	s.lanesRunning.Go(l.run)
	return l, nil
}

// offer adds a task without waiting. The error says why there is no room.
func (l *lane) offer(t *task) error {
	t.lane = l
	shed, err := l.put(t)
	for _, one := range shed {
		one.finish(nil, ErrQueueFull)
	}
	return err
}

// put adds a task, and returns those that made room for it.
func (l *lane) put(t *task) (shed []*task, err error) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return nil, ErrShutdown
	case l.closed:
		return nil, ErrChanged
	case l.isSuspended():
		return nil, l.suspended
	case isExamination(t):
		if shed, err = l.putExamination(t); err != nil {
			return shed, err
		}
	case len(l.queue) >= l.room:
		return nil, ErrQueueFull
	default:
		l.queue = append(l.queue, t)
	}
	if s.session == nil {
		s.need()
	}
	l.changed.Signal()
	return shed, nil
}

// isSuspended reports whether the lane is suspended, still. The mutex is held.
func (l *lane) isSuspended() bool {
	if l.suspended != nil && l.suspension > 0 && time.Since(l.strikes[len(l.strikes)-1]) > l.suspension {
		l.suspended, l.strikes = nil, nil
	}
	return l.suspended != nil
}

// end ends the lane: what waits or is under way is finished with an error before it returns,
// and cancelled in the child.
func (l *lane) end(why error) {
	l.s.mu.Lock()
	waiting := l.close()
	l.s.mu.Unlock()
	for _, t := range waiting {
		t.finish(nil, why)
	}
}

// close closes the lane and returns the tasks that are left. The mutex is held.
func (l *lane) close() []*task {
	if l.closed {
		return nil
	}
	l.closed = true
	delete(l.s.lanes, l.number)
	l.s.clear(func(suspect suspect) bool { return suspect.lane == l })
	l.changed.Signal()
	l.s.wakeExaminations()
	return l.takeAll()
}

// takeAll takes all tasks from the lane. The mutex is held.
func (l *lane) takeAll() []*task {
	all := slices.Concat(l.underWay, l.queue, l.examinations)
	all = slices.DeleteFunc(all, func(t *task) bool { return t.internal })
	l.queue, l.examinations, l.underWay, l.sent = nil, nil, nil, 0
	return all
}

// run sends the lane's tasks until it is closed. Then it has the child forget it: nobody
// else sends anything about the lane, so that this is the last.
func (l *lane) run() {
	for {
		t, session := l.next()
		if t == nil {
			session.send(wire.Frame{Kind: wire.KindClose, Lane: l.number}, false)
			return
		}
		if t.payload == nil {
			payload, ok := t.prepare()
			if !ok {
				l.leave(t)
				continue
			}
			t.payload = payload
		}
		l.send(session, t)
	}
}

// next waits for a task that may be sent, and takes it from the queue. It is nil if the lane
// is closed.
func (l *lane) next() (*task, *session) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for !l.closed && !l.maySend() {
		if n := l.unflushed; n != nil {
			l.unflushed = nil
			s.mu.Unlock()
			n.flush()
			s.mu.Lock()
			continue
		}
		l.changed.Wait()
	}
	if l.closed {
		return nil, s.session
	}
	l.preparing = true
	if l.source != nil && l.at != s.session {
		return l.compilation(), s.session
	}
	if l.mayExamine() {
		return takeFirst(&l.examinations), s.session
	}
	t := takeFirst(&l.queue)
	l.sending = len(l.queue) > 0
	return t, s.session
}

func takeFirst(from *[]*task) *task {
	t := (*from)[0]
	(*from)[0] = nil
	*from = (*from)[1:]
	return t
}

// gathered reports whether what waits is to be sent now: nobody waits for the answers, and to wake up another
// process costs more than most of them. If it is to be later, the lane goes on then. The mutex is held.
func (l *lane) gathered() bool {
	switch {
	case l.source == nil || l.at != l.s.session || l.sending || len(l.queue) >= enough || l.s.config.Gathering < 0:
		l.sending = true
		return true
	case !l.gathers:
		l.gathers = true
		l.s.wakeExaminations() // the child may have nothing to do meanwhile
		time.AfterFunc(l.s.config.Gathering, func() {
			l.s.mu.Lock()
			defer l.s.mu.Unlock()
			l.gathers, l.sending = false, true
			l.changed.Signal()
		})
	}
	return false
}

// maySend reports whether there is something to send now, and it is the lane's turn. The mutex
// is held.
func (l *lane) maySend() bool {
	return l.hasTurn() && (l.mayExamine() || l.wanted && l.at != l.s.session || len(l.queue) > 0 && l.gathered())
}

// hasTurn reports whether a task of the lane may be under way. The mutex is held.
func (l *lane) hasTurn() bool {
	s := l.s
	switch {
	case s.session == nil, s.session.paused && l.source != nil:
		// Content that somebody waits for is not put off.
		return false
	case len(s.suspects) > 0:
		return s.suspects[0].lane == l && s.underWay() == 0
	case time.Now().Before(s.serial):
		return s.underWay() == 0
	case len(l.underWay) == 0:
		return true
	}
	// Nothing is asked of a policy before it is known that it compiles.
	return !l.underWay[0].internal && len(l.underWay) < window && l.sent < windowBytes
}

// underWay is how many tasks are. The mutex is held.
func (s *Supervisor) underWay() (n int) {
	for _, l := range s.lanes {
		n += len(l.underWay)
	}
	return n
}

// compilation is the task to compile the lane's policy. The mutex is held.
func (l *lane) compilation() *task {
	return &task{lane: l, kind: wire.KindCompile, payload: l.source, internal: true, done: l.compiled}
}

// send hands a task to the session, unless that is another one by now, or others had their
// turn in the meantime.
func (l *lane) send(session *session, t *task) {
	s := l.s
	s.mu.Lock()
	l.preparing = false
	switch {
	case l.closed:
		s.mu.Unlock()
		if !t.internal {
			t.finish(nil, ErrChanged)
		}
		return
	case s.session != session || !l.hasTurn():
		l.putFirst(t)
		if s.session == nil {
			// The child ended while the task was in nobody's queue.
			s.need()
		}
		s.mu.Unlock()
		return
	}
	if t.internal {
		l.at = session
	}
	s.lastJob++
	t.job, t.sent = s.lastJob, time.Now()
	l.underWay = append(l.underWay, t)
	l.sent += int64(len(t.payload))
	session.given++
	session.busy()
	more := l.maySend()
	if l.unflushed = nil; more {
		l.unflushed = session
	}
	s.mu.Unlock()
	session.send(wire.Frame{Kind: t.kind, Lane: l.number, Job: t.job, Payload: t.payload}, more)
}

// leave is called with a task that was finished before it was sent.
func (l *lane) leave(t *task) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.preparing = false
	t.finished.Do(t.release)
	l.s.clear(func(suspect suspect) bool { return suspect.task == t })
	l.s.wakeExaminations()
}

// answered takes the task that an answer is for from those under way. It is nil if there is
// none: the lane was closed. The mutex is held.
func (l *lane) answered(job uint64) *task {
	if len(l.underWay) == 0 || l.underWay[0].job != job {
		return nil
	}
	t := l.underWay[0]
	l.underWay[0] = nil
	l.underWay = l.underWay[1:]
	l.sent -= int64(len(t.payload))
	if t.internal {
		l.wanted = false
	}
	l.spend(t)
	l.s.clear(func(suspect suspect) bool {
		return suspect.task == t || suspect.task == nil && suspect.lane == l && t.internal
	})
	l.changed.Signal()
	return t
}

// putBack puts what is under way in all lanes back into their queues. The mutex is held.
func (s *Supervisor) putBack() {
	for _, l := range s.lanes {
		l.putBack()
	}
}

// putBack puts what is under way back into the queue: the child has died. It returns the
// first, which was being done. The mutex is held.
func (l *lane) putBack() (first *task) {
	if len(l.underWay) == 0 {
		return nil
	}
	first = l.underWay[0]
	for _, t := range slices.Backward(l.underWay) {
		l.putFirst(t)
	}
	l.wanted = l.wanted || first.internal
	l.underWay, l.sent = nil, 0
	return first
}

// putFirst puts a task back to where it was taken from; not one of the lane itself. The mutex is held.
func (l *lane) putFirst(t *task) {
	switch {
	case t.internal:
	case isExamination(t):
		l.examinations = slices.Insert(l.examinations, 0, t)
	default:
		l.queue = slices.Insert(l.queue, 0, t)
	}
}

package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"understudy/authz/rehearsal/process"
	"understudy/authz/rehearsal/wire"
)

// startTime bounds the time in which a child says that it is ready. A machine may be busy.
const startTime = 30 * time.Second

// session is one child.
type session struct {
	s       *Supervisor
	child   Child
	conn    *wire.Conn
	monitor *monitor

	// killed is why the session itself ended the child; empty if it did not. It and paused
	// are guarded by the mutex of the supervisor.
	killed end
	// paused says that nothing is sent for a while, and scarce that this may be near.
	paused, scarce bool
	// given is how many tasks the child was given. It is guarded by the mutex of the supervisor.
	given int
	// blamed is what the child said last. It belongs to run.
	blamed end
}

func newSession(s *Supervisor, child Child) *session {
	session := &session{s: s, child: child, conn: wire.NewConn(child)}
	session.monitor = newMonitor(session)
	return session
}

// run talks to the child until it has ended.
func (n *session) run() end {
	defer func() { _ = n.conn.Close() }()
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		n.monitor.run()
	}()
	err := n.greet()
	ready := err == nil
	if ready {
		err = n.receive()
	}
	n.monitor.close()
	<-watching
	// A child that has said why it ends needs no killing, but may take its time.
	n.child.Kill()
	if n.closed() {
		// It ends as soon as it gets processor time, of which a full machine has none left.
		return end{cause: causeClosed}
	}
	state := n.child.Wait()
	return n.ended(ready, err, state)
}

// greet makes sure that the other side is a child of ours. The monitor bounds its time.
func (n *session) greet() error {
	config := n.s.config
	hello := wire.Hello{
		Build: config.Build, Memory: config.Memory, CompileTime: config.CompileTime * config.overhead(), StuckTime: config.StuckTime * config.overhead(),
		Descriptors: config.Descriptors, DuplicateKeys: config.DuplicateKeys, BodyMemory: config.BodyMemory, Instrumented: config.Overhead > 1,
	}
	if err := n.conn.Send(wire.Frame{Kind: wire.KindHello, Payload: wire.Marshal(hello)}); err != nil {
		return err
	}
	f, err := n.conn.Receive()
	if err != nil {
		return err
	}
	var ready wire.Ready
	if f.Kind != wire.KindReady {
		return wire.ErrFrame
	}
	if err := wire.Unmarshal(f.Payload, &ready); err != nil {
		return err
	}
	s := n.s
	if ready.Unconfined != "" {
		s.unconfined.Do(func() {
			s.log.Info("the rehearsal process runs without a sandbox: a fault in the evaluation of an experiment would have the rights of this user", "reason", ready.Unconfined)
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n.monitor.started()
	if n.killed.cause == "" {
		s.session = n
		s.wakeAll()
	}
	return nil
}

// receive takes what the child sends, until it ends.
func (n *session) receive() error {
	for {
		f, err := n.conn.Receive()
		if err != nil {
			return err
		}
		if err := n.take(f); err != nil {
			return err
		}
	}
}

// take takes one frame.
func (n *session) take(f wire.Frame) error {
	switch f.Kind {
	case wire.KindPong:
		n.monitor.answered()
	case wire.KindCall:
		return n.serve(f)
	case wire.KindCompiled, wire.KindTested, wire.KindDecided, wire.KindBlamed, wire.KindTraced, wire.KindListed, wire.KindShown, wire.KindCompared:
		if t := n.taskOf(f, true); t != nil {
			t.finish(f.Payload, nil)
		}
	case wire.KindEnding:
		var e wire.Exit
		if err := wire.Unmarshal(f.Payload, &e); err != nil {
			return err
		}
		n.blamed = end{e.Cause, "it noticed by itself", f.Lane, f.Job}
		if e.Memory > 0 {
			n.blamed.detail = fmt.Sprintf("it noticed by itself at %d MiB", e.Memory>>20)
		}
	default:
		return wire.ErrFrame
	}
	return nil
}

// taskOf returns the task that a frame is about, which leaves its lane if it is over; nil
// if nobody waits for it any more.
func (n *session) taskOf(f wire.Frame, over bool) *task {
	s := n.s
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[f.Lane]
	switch {
	case l == nil:
		return nil
	case over:
		return l.answered(f.Job)
	case len(l.underWay) > 0 && l.underWay[0].job == f.Job:
		return l.underWay[0]
	}
	return nil
}

// serve calls an external service for a task. There is one call of a lane at a time.
func (n *session) serve(f wire.Frame) error {
	var call wire.Call
	if err := wire.Unmarshal(f.Payload, &call); err != nil {
		return err
	}
	t := n.taskOf(f, false)
	if t == nil || t.call == nil {
		// Anyone who receives must not wait for the child to receive.
		go n.send(wire.Frame{Kind: wire.KindAnswer, Lane: f.Lane, Job: f.Job, Payload: wire.Marshal(wire.Answer{Call: call.Call})}, false)
		return nil
	}
	go func() {
		answer := t.call(call)
		answer.Call = call.Call
		n.send(wire.Frame{Kind: wire.KindAnswer, Lane: f.Lane, Job: f.Job, Payload: wire.Marshal(answer)}, false)
	}()
	return nil
}

// send sends a frame; later, if more follow at once. An error ends what is received, too.
// A nil session sends nothing.
func (n *session) send(f wire.Frame, more bool) {
	switch {
	case n == nil:
	case more:
		n.conn.SendLater(f)
	default:
		_ = n.conn.Send(f)
	}
}

// flush sends what has waited for more.
func (n *session) flush() { _ = n.conn.Flush() }

// busy has the monitor know that something is under way.
func (n *session) busy() { n.monitor.begin() }

// kill ends the child.
func (n *session) kill(why cause, detail string) {
	n.s.mu.Lock()
	if n.killed.cause == "" {
		n.killed = end{cause: why, detail: detail}
	}
	n.s.mu.Unlock()
	n.child.Kill()
	_ = n.conn.Close()
}

// closed reports whether the child was killed since the supervisor is closed.
func (n *session) closed() bool {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	return n.killed.cause == causeClosed
}

// ended says how the child ended: by our hand, by its own, or in another way.
func (n *session) ended(ready bool, err error, state string) end {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	switch {
	case n.killed.cause != "":
		return n.killed
	case !ready:
		return end{cause: causeStart, detail: fmt.Sprintf("%s (%v)", state, err)}
	case n.blamed.cause != "":
		return n.blamed
	case errors.Is(err, wire.ErrFrame), errors.Is(err, wire.ErrForm):
		return end{cause: causeCrashed, detail: err.Error()}
	case strings.Contains(state, "out of memory"), strings.Contains(state, "cannot allocate memory"):
		return end{cause: causeMemory, detail: state}
	case process.Crashed(state):
		return end{cause: causeCrashed, detail: state}
	}
	return end{cause: causeKilled, detail: state}
}

package child

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/cache"
	"understudy/authz/rehearsal/wire"
	"understudy/rego/regotest"
)

// laneRoom is how many frames may wait in a lane; the parent sends fewer.
const laneRoom = 256

// lane does what is asked of one policy, in order.
type lane struct {
	number uint64
	child  *child
	frames chan wire.Frame
	// ctx ends when the lane is closed.
	ctx    context.Context
	cancel context.CancelFunc
	// work is what is under way; nil if nothing is.
	work atomic.Pointer[work]

	// policy is nil until one has compiled, and room is what its cache takes, in bytes. Both belong to run.
	policy *cache.Policy
	room   int64
	// buffer is that of the last answer, and forms has those of cached decisions. Both belong to run.
	buffer []byte
	forms  map[*authz.Rendering][]byte
	// compiled is the policy with its source, and judge compares it with a live one; nil until that
	// was asked for. They belong to run.
	compiled *compiled
	judge    *judge
}

// work is one thing that a lane does.
type work struct {
	frame wire.Frame
	ctx   context.Context
	// begun is the processor time of the process when it began.
	begun time.Duration
	// late is the processor time of the process when it was first seen that ctx was done.
	// It belongs to the watchdog.
	late time.Duration
}

func newLane(c *child, number uint64) *lane {
	l := &lane{number: number, child: c, frames: make(chan wire.Frame, laneRoom), forms: make(map[*authz.Rendering][]byte)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// offer hands a frame over. The error is that of a parent that sends too many.
func (l *lane) offer(f wire.Frame) error {
	select {
	case l.frames <- f:
		return nil
	default:
		return fmt.Errorf("lane %d: more than %d frames wait", l.number, laneRoom)
	}
}

// close cancels what is under way and forgets what waits.
func (l *lane) close() { l.cancel() }

func (l *lane) run() {
	defer l.child.watchdog.remove(l)
	defer l.forget()
	for {
		select {
		case <-l.ctx.Done():
			return
		case f := <-l.frames:
			if l.ctx.Err() != nil {
				return
			}
			l.do(f)
		}
	}
}

// do does what a frame asks and answers it.
func (l *lane) do(f wire.Frame) {
	w := &work{frame: f, ctx: l.ctx}
	if f.Kind.Examines() {
		// The parent reckons how long it takes from the answer before it on.
		_ = l.child.conn.Flush()
	}
	switch f.Kind {
	case wire.KindCompile:
		l.begin(w)
		l.answer(f, wire.KindCompiled, wire.Marshal(l.compile(f.Payload)))
	case wire.KindTest:
		l.test(w)
	case wire.KindEvaluate:
		l.evaluate(w)
	case wire.KindBlame:
		l.blame(w)
	case wire.KindTrace:
		l.trace(w)
	case wire.KindCompare:
		l.differing(w)
	case wire.KindItems:
		l.items(w)
	case wire.KindShow:
		l.show(w)
	}
	l.work.Store(nil)
	l.child.watchdog.end()
}

// begin makes it known what is under way.
func (l *lane) begin(w *work) {
	w.begun = background.ProcessorTime()
	l.work.Store(w)
	l.child.watchdog.begin()
}

// answerDelay is for how long an answer may wait for the next one of its lane.
const answerDelay = 200 * time.Microsecond

// answer sends the answer to a frame; together with the next, if that is to be made now.
func (l *lane) answer(f wire.Frame, kind wire.Kind, payload []byte) {
	answer := wire.Frame{Kind: kind, Lane: f.Lane, Job: f.Job, Payload: payload}
	l.child.conn.SendLater(answer)
	if len(l.frames) == 0 || f.Kind.Examines() || l.child.conn.Waiting() > answerDelay {
		// An error ends the stream, and with it the process.
		_ = l.child.conn.Flush()
	}
}

func (l *lane) compile(payload []byte) wire.Compiled {
	c, err := l.child.policies.compile(l.ctx, payload)
	if err == nil {
		err = l.use(c)
	}
	if err != nil {
		return wire.Compiled{Refused: refused(err)}
	}
	return wire.Compiled{Facts: c.policy.Facts()}
}

// use has the lane decide by a policy, with a cache as far as there is room for one.
func (l *lane) use(c *compiled) error {
	l.forget()
	l.compiled = c
	l.policy, l.room = cache.NewPolicy(c.policy), l.child.caches.take()
	if size := l.room / cache.BytesPerDecision; size > 0 {
		return l.policy.SetSize(int(size))
	}
	return nil
}

// forget gives back the room of the cache.
func (l *lane) forget() {
	l.child.caches.give(l.room)
	l.policy, l.compiled, l.judge, l.room = nil, nil, nil, 0
	clear(l.forms)
}

func refused(err error) *wire.Refused {
	var broken *authz.CompileError
	if errors.As(err, &broken) {
		return &wire.Refused{Violations: broken.Violations}
	}
	return &wire.Refused{Text: err.Error()}
}

// test runs the tests of a policy, which the lane does not keep.
func (l *lane) test(w *work) {
	var request wire.TestRequest
	p := &adminpb.Policy{}
	err := wire.Unmarshal(w.frame.Payload, &request)
	if err == nil {
		err = proto.Unmarshal(request.Policy, p)
	}
	cancel := l.bound(w, request.Time)
	defer cancel()
	out := wire.Tested{}
	if err == nil {
		out.Report, err = authz.RunTests(w.ctx, p, regotest.Options{Timeout: request.Timeout})
	}
	out.OutOfTime = w.ctx.Err() != nil
	if err != nil && !out.OutOfTime {
		out.Refused = refused(err)
	}
	l.answer(w.frame, wire.KindTested, wire.Marshal(out))
}

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
	// buffer is that of the last answer. It belongs to run.
	buffer []byte
	// watched are the targets that were asked for last. They belong to run.
	watched watched
}

// work is one thing that a lane does.
type work struct {
	frame wire.Frame
	ctx   context.Context
	// begun is the processor time of the process when it began.
	begun time.Duration
	// late is the processor time of the process when it was first seen that ctx was done.
	// It belongs to the watch.
	late time.Duration
}

func newLane(c *child, number uint64) *lane {
	l := &lane{number: number, child: c, frames: make(chan wire.Frame, laneRoom)}
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
	defer l.child.watch.remove(l)
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
	case wire.KindDiff:
		l.diff(w)
	case wire.KindCover:
		l.cover(w)
	}
	l.work.Store(nil)
	l.child.watch.end()
}

// begin makes it known what is under way.
func (l *lane) begin(w *work) {
	w.begun = background.ProcessorTime()
	l.work.Store(w)
	l.child.watch.begin()
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
	p := &adminpb.Policy{}
	if err := proto.Unmarshal(payload, p); err != nil {
		return wire.Compiled{Refused: refused(err)}
	}
	policy, err := authz.Compile(l.ctx, p)
	if err != nil {
		return wire.Compiled{Refused: refused(err)}
	}
	if err := l.use(policy); err != nil {
		return wire.Compiled{Refused: refused(err)}
	}
	return wire.Compiled{Facts: policy.Facts()}
}

// use has the lane decide by a policy, with a cache as far as there is room for one.
func (l *lane) use(policy *authz.Policy) error {
	l.forget()
	l.policy, l.room = cache.NewPolicy(policy), l.child.caches.take()
	if size := l.room / cache.BytesPerDecision; size > 0 {
		return l.policy.SetSize(int(size))
	}
	return nil
}

// forget gives back the room of the cache.
func (l *lane) forget() {
	l.child.caches.give(l.room)
	l.policy, l.room = nil, 0
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

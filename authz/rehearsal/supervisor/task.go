package supervisor

import (
	"sync"
	"time"

	"understudy/authz/rehearsal/wire"
)

// task is one thing that the child is asked to do, in a lane.
type task struct {
	lane *lane
	kind wire.Kind
	// prepare makes the payload, off the request path. It is called once, before the task is
	// sent, by the goroutine of the lane. It reports false if there is nothing to send: then
	// it has finished the task itself.
	prepare func() (payload []byte, ok bool)
	// done is called once, with the payload of the answer or an error. It must not wait.
	done func(payload []byte, err error)
	// call answers a call of an external service for the task; nil answers none.
	call func(wire.Call) wire.Answer

	// payload is kept until there is an answer, since the task may have to be sent again.
	payload []byte
	job     uint64
	// examination is what the task is if it is asked about a decision; nil for a decision itself, and content.
	examination *Examination
	// sent is when it was.
	sent time.Time
	// internal says that the lane itself asks: for its policy to be compiled.
	internal bool
	finished sync.Once
}

// finish ends the task.
func (t *task) finish(payload []byte, err error) {
	t.finished.Do(func() {
		t.release()
		t.done(payload, err)
	})
}

// release gives back the room for the request of an examination.
func (t *task) release() {
	if isExamination(t) {
		t.lane.s.held.Add(-int64(t.examination.Bytes))
	}
}

func isExamination(t *task) bool { return t.examination != nil }

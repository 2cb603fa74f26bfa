package rehearsal

import (
	"errors"
	"sync"

	"understudy/authz/diagnostics"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
)

// To examine a request is to have a policy evaluate it for something else than a decision to
// compare: for its causes, for coverage, or to see whether it is decided alike twice. That
// has the time of the request, waits behind decisions, and is left out where it does not fit.

// examine asks one side about the request of a comparison. body says whether that side may read its body.
// done is called once, now or later, by any goroutine.
func examine[T any](
	c *comparing, body bool, ask func(prepare func() (wire.Question, bool), done func(T, error)) error, done func(T, error),
) {
	var once sync.Once
	var none T
	finish := func(answer T, err error) { once.Do(func() { done(answer, err) }) }
	prepare := func() (q wire.Question, ok bool) {
		defer func() {
			if cause := recover(); cause != nil {
				c.report(cause, diagnostics.PanicPreview)
				finish(none, errPanicked)
				q, ok = wire.Question{}, false
			}
		}()
		q, err := questionOf(c.shadow.config, c.job.request, body)
		if err != nil {
			finish(none, err)
		}
		return q, err == nil
	}
	if err := ask(prepare, finish); err != nil {
		finish(none, err)
	}
}

// reserve takes the memory of a request of so many bytes, if there is any.
func (s *Shadow) reserve(bytes int) bool {
	if s.bytes.Add(int64(bytes)) > int64(s.config.Limits.QueueBytes) {
		s.bytes.Add(-int64(bytes))
		return false
	}
	return true
}

// hold takes the room that an examination of a request of so many bytes needs, if there is
// any.
func (s *Shadow) hold(bytes int) bool {
	if !s.reserve(bytes) {
		return false
	}
	s.underWay.Add(1)
	return true
}

// release gives it back.
func (s *Shadow) release(bytes int) {
	s.bytes.Add(-int64(bytes))
	s.underWay.Done()
}

// uncoveredPart is which part of the memory for requests those may have that wait to be
// covered: one in so many.
const uncoveredPart = 8

// holdUncovered takes the room for a request of so many bytes that waits to be covered, if
// there is any.
func (s *Shadow) holdUncovered(bytes int) bool {
	if s.uncovered.Add(int64(bytes)) > int64(s.config.Limits.QueueBytes)/uncoveredPart || !s.reserve(bytes) {
		s.uncovered.Add(-int64(bytes))
		return false
	}
	return true
}

func (s *Shadow) releaseUncovered(bytes int) {
	s.uncovered.Add(-int64(bytes))
	s.bytes.Add(-int64(bytes))
}

func (s *Shadow) releaseAll(of []*covering) {
	for _, v := range of {
		s.releaseUncovered(v.of.job.bytes)
	}
}

// surviveExamining is deferred: what panics costs no comparison.
func (c *comparing) surviveExamining() {
	if cause := recover(); cause != nil {
		c.report(cause, diagnostics.PanicPreview)
	}
}

// examined notes what became of an examination. If it ended the rehearsal process, there are
// no more of them for the candidate: three deaths would suspend the experiment itself.
func (c *Candidate) examined(err error) {
	if guilt := (*supervisor.Guilt)(nil); errors.As(err, &guilt) {
		c.unexamined.Store(true)
	}
}

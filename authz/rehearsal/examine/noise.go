package examine

import (
	"sync/atomic"

	"understudy/authz"
	"understudy/authz/rehearsal/decisionrequest"
)

const (
	// sampleEvery is how many requests there are, on average, for one that the live policy
	// decides twice, if it has ACTIVE experiments. Which one it is is chance.
	sampleEvery = 256
	// sampleFirst is how many of the first requests of a pair are, whatever chance says.
	sampleFirst = 8
	// maxSampling is how many are at a time.
	maxSampling = 4
)

// Sampled counts the requests of a pair that its live policy was asked to decide twice.
type Sampled struct{ asked atomic.Int64 }

// Draw reports whether the next request of a pair is to be sampled.
func (x *Examiner) Draw(n *Sampled) bool {
	return x.dice()%sampleEvery == 0 || n.asked.Load() < sampleFirst
}

// Sample has the live policy decide a request once more: in the rehearsal
// process, as if it were one of its own experiments. So it has the same input, the time of
// the request and the replies of services that it had; what is left is chance, and what the
// request cannot be asked again for. Where a policy differs from itself, so may an experiment of
// equal content. No shortcut is verified here: both decisions may take them. It never waits.
//
// done is called with the difference between the two decisions, if there are two, by any
// goroutine: what it would be called, were the second one that of an experiment.
func (x *Examiner) Sample(s *Subject, n *Sampled, done func(authz.Difference)) {
	if s.Candidate.spent.Load() || !s.evaluated() || !s.Decision.Failure.Lasting() || x.sampling.Load() >= maxSampling {
		return
	}
	n.asked.Add(1)
	x.sampling.Add(1)
	x.underWay.Add(1)
	finish := finished(func(again authz.Decision, err error) {
		defer x.underWay.Done()
		defer x.sampling.Add(-1)
		defer x.survive(s)
		s.Candidate.examined(err)
		if err == nil && again.Failure.Lasting() {
			done(s.itself(again))
		}
	})
	asked := x.about(s, s.Live.Policy.Compiled().MayReadBody(), nil, func(err error) { finish(authz.Decision{}, err) })
	if err := x.config.Live.Of(s.Live).Again(asked, decisionrequest.KnownAnswers(s.Request), finish); err != nil {
		finish(authz.Decision{}, err)
	}
}

// itself is the difference of the live decision to a second one of the same policy. That of
// reasons alone is none.
func (s *Subject) itself(again authz.Decision) authz.Difference {
	if authz.SameDecision(s.Decision, again) {
		return authz.Unchanged
	}
	return s.Request.Compare(s.Decision, again)
}

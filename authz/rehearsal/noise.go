package rehearsal

import (
	"maps"
	"sync"
	"sync/atomic"

	"understudy/authz"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
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

// Noise is how far a live policy differs from itself. Where it does, so may an experiment
// of equal content, and a difference of the same kind need not be one of content.
type Noise struct {
	// Sampled is the number of requests that the live policy decided twice.
	Sampled int64
	// Differed is how many of them it decided in two ways.
	Differed int64
	// Kinds :: what the difference would be called, were the second decision that of an
	// experiment → how many. They sum up to Differed.
	Kinds map[authz.Difference]int64
}

// noise counts that. The zero value has counted nothing. It is safe for concurrent use.
type noise struct {
	// asked is how many requests were taken.
	asked atomic.Int64

	mu     sync.Mutex
	counts Noise
}

func (n *noise) count(d authz.Difference) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts.Sampled++
	if d == authz.Unchanged {
		return
	}
	if n.counts.Kinds == nil {
		n.counts.Kinds = make(map[authz.Difference]int64)
	}
	n.counts.Differed++
	n.counts.Kinds[d]++
}

// Noise returns how far the live policy of the experiment differs from itself, from the
// first request on that was compared. A new version of either begins anew.
func (e *Experiment) Noise() Noise {
	e.noise.mu.Lock()
	defer e.noise.mu.Unlock()
	out := e.noise.counts
	out.Kinds = maps.Clone(out.Kinds)
	return out
}

// sample has the live policy decide a request once more, now and then: in the rehearsal
// process, as if it were one of its own experiments. So it has the same input, the time of
// the request and the replies of services that it had; what is left is chance, and what the
// request cannot be asked again for. No shortcut is verified here: both decisions may take
// them. It never waits.
func (s *Shadow) sample(j *job) {
	e := j.experiments[0]
	if s.dice()%sampleEvery != 0 && e.noise.asked.Load() >= sampleFirst {
		return
	}
	live := j.live.Policy.Compiled()
	if e.Candidate.unexamined.Load() || !j.evaluated() || !j.decision.Failure.Lasting() || s.sampling.Load() >= maxSampling || !s.hold(j.bytes) {
		return
	}
	c := &comparing{s, *j, e}
	e.noise.asked.Add(1)
	s.sampling.Add(1)
	asking := func(prepare func() (wire.Question, bool), done func(authz.Decision, error)) error {
		return s.policies.of(j.live).Decide(supervisor.Question{Prepare: prepare, Call: c.callAgain, Done: done})
	}
	examine(c, live.MayReadBody(), asking, func(again authz.Decision, err error) {
		defer s.release(c.job.bytes)
		defer s.sampling.Add(-1)
		defer c.surviveExamining()
		for _, each := range c.job.experiments {
			each.Candidate.examined(err)
		}
		if err != nil || !again.Failure.Lasting() {
			return
		}
		d := c.job.itself(again)
		for _, each := range c.job.experiments {
			each.noise.count(d)
			if each.Evidence != nil {
				each.Evidence.AddNoise(c.job.live.Etag, d)
			}
		}
	})
}

// itself is the difference of the live decision to a second one of the same policy. That of
// reasons alone is none.
func (j *job) itself(again authz.Decision) authz.Difference {
	if authz.SameDecision(j.decision, again) {
		return authz.Unchanged
	}
	return j.request.Compare(j.decision, again)
}

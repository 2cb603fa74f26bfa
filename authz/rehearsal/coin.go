package rehearsal

import "time"

const (
	// maxHalvings bounds how rarely a comparison is drawn: one of 1,024.
	maxHalvings = 10
	// coinTick is the time between two looks at a queue. Over half full, half as many are drawn from then on.
	coinTick = 100 * time.Millisecond
	// coinCalm is for how long a queue has to be below calmPart of what it holds until twice as many are.
	coinCalm = time.Second
	fullPart = 0.5
	calmPart = 0.125
)

// coin draws the comparisons of one experiment that are made when not all of them can be: one in 2^k, whatever
// the request is and costs, so that those that are made stand for the others. The zero value draws all. It
// belongs to the worker that hands requests to the experiments.
type coin struct {
	halvings int
	// looked is when the queue was looked at last, and calm since when it is below calmPart; zero if it is not.
	looked, calm time.Time
	// before is how full the queue was then.
	before float64
}

// toss reports whether the comparison with a request is drawn, and for how many it stands then. draw is random and
// the same for all experiments: of two that draw as rarely, both draw the same requests. filled is asked for the
// part of the queue that is full.
func (c *coin) toss(now time.Time, draw uint64, filled func() float64) (weight int64, drawn bool) {
	if now.Sub(c.looked) >= coinTick {
		c.looked = now
		c.look(now, filled())
	}
	weight = 1 << c.halvings
	return weight, draw&uint64(weight-1) == 0 // at least 1
}

// look sees how full the queue is. One that drains needs no smaller sample: to go on would leave a few
// comparisons that stand for most of the traffic. One that nothing was put into since it was calm has been calm all the time.
func (c *coin) look(now time.Time, filled float64) {
	draining := filled < c.before
	c.before = filled
	switch {
	case filled >= calmPart:
		c.calm = time.Time{}
		if filled > fullPart && !draining {
			c.halvings = min(c.halvings+1, maxHalvings)
		}
	case c.calm.IsZero():
		c.calm = now
	default:
		passed := int(now.Sub(c.calm) / coinCalm)
		c.halvings = max(c.halvings-passed, 0)
		c.calm = c.calm.Add(time.Duration(passed) * coinCalm)
	}
}

// filled is the part of what may wait for the candidate that does, by number or memory.
func (s *Shadow) filled(c *Candidate) float64 {
	limits := s.config.Limits
	all := float64(limits.QueueBytes)
	return max(float64(c.side.Remote.Waiting())/float64(limits.Queue), float64(c.bytes.Load())/(all/2), float64(s.bytes.Load())/all)
}

package examine

import (
	"errors"
	"sync/atomic"
	"time"

	"understudy/authz"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
)

// Group is a group of differences, as examinations keep them apart; the zero value is that of no difference.
type Group struct {
	Difference authz.Difference
	// Method and Path are those of the endpoint, Rule is what decided.
	Method, Path, Rule string
}

const (
	// maxFirsts is how many requests of a group are examined whatever else waits.
	maxFirsts = 3
	// maxGroups is how many groups are known. Beyond, all are forgotten.
	maxGroups = 1024
	// maxFailures is how often it is tried to find out in what the policies differ.
	maxFailures = 2
)

// isFirst reports whether a request is one of the first of its group of differences. The lock is held.
func (p *Pair) isFirst(g Group) bool {
	if g == (Group{}) || p.firsts[g] >= maxFirsts {
		return false
	}
	if p.firsts == nil || len(p.firsts) >= maxGroups {
		p.firsts = make(map[Group]int)
	}
	p.firsts[g]++
	return true
}

// examination is one request that both policies evaluate. Before that task of its lane, it was found out there in
// what they differ.
type examination struct {
	examiner *Examiner
	of       Subject
	pair     *Pair
	key      leaves
	keyed    bool
	// repeated says that a request of the same leaves was examined before. What becomes of it is not counted.
	repeated bool
	// kept says that the request is an example of a difference, for which others make room.
	kept atomic.Bool

	// What follows belongs to who asks, or is answered.

	// text is what is asked for.
	text []byte
	// tried says that it failed before.
	tried bool
}

// distinct reports whether it is known that no request of the same leaves was examined before.
func (e *examination) distinct() bool { return e.keyed && !e.repeated }

// Examine has both policies evaluate a request to find out what it shows of the items in which they differ, if
// that may show anything new. The first requests of each group of differences always are examined: what turned a
// request away was seen. It never waits.
func (x *Examiner) Examine(s Subject, p *Pair, g Group) {
	if p.over.Load() || s.Candidate.Remote == nil {
		return
	}
	defer x.survive(&s)
	if !p.begun.Load() && p.begun.CompareAndSwap(false, true) {
		x.compare(s.Live.Source, s.Candidate, p)
	}
	if !s.examinable() {
		return
	}
	if e := x.put(s, p, g); e != nil {
		x.underWay.Add(1)
		e.ask()
	}
}

// examinable reports whether both policies evaluate the request; a live one without rules
// need not.
func (s *Subject) examinable() bool {
	return s.Request.Operation != authz.OperationOnEnd && !s.Candidate.Exempted.Cover(s.Request) && !s.Live.Policy.Compiled().Exempts(s.Request)
}

// leaves returns the leaves of the request. keyed is false if one is not known: then the decision of that
// side is not cached. A side without rules learns nothing, and has none.
func (s *Subject) leaves() (key leaves, keyed bool) {
	key = leaves{live: s.Decision.Leaf(), candidate: s.Leaf}
	none := authz.Leaf{}
	return key, (key.live != none || s.Live.Policy.Compiled().NoOp()) && (key.candidate != none || len(s.Candidate.Source.GetRules()) == 0)
}

// Reasons name what both policies have learned of the request; zero if that is not known.
func (s *Subject) Reasons() (r [4]uint64) {
	if key, keyed := s.leaves(); keyed {
		r = [4]uint64{key.live[0], key.live[1], key.candidate[0], key.candidate[1]}
	}
	return r
}

// compare asks in what the policies differ.
func (x *Examiner) compare(live *authz.Packed, c *Candidate, p *Pair) {
	x.underWay.Add(1)
	finish := finished(func(listed wire.Listed, err error) {
		defer x.underWay.Done()
		c.examined(err)
		p.mu.Lock()
		again := false
		if err == nil {
			p.learn(listed)
		} else {
			p.failures++
			p.ended = isGone(err) || p.failures >= maxFailures || x.ended.Load()
			again = !p.ended
		}
		p.mu.Unlock()
		if again {
			x.compare(live, c, p)
		} else {
			p.changed()
		}
	})
	if err := c.Remote.Items(live, finish); err != nil {
		finish(wire.Listed{}, err)
	}
}

// isGone reports whether who was asked will never answer any more.
func isGone(err error) bool {
	crash := (*supervisor.CrashError)(nil)
	return errors.Is(err, supervisor.ErrChanged) || errors.Is(err, supervisor.ErrShutdown) || errors.As(err, &crash)
}

// put returns a request that is to be examined; nil if it is not.
func (x *Examiner) put(s Subject, p *Pair, g Group) *examination {
	key, keyed := s.leaves()
	p.mu.Lock()
	defer p.mu.Unlock()
	e := &examination{examiner: x, of: s, pair: p, key: key, keyed: keyed}
	first := p.isFirst(g)
	e.kept.Store(first)
	before, known := p.examined[key]
	switch {
	case !keyed:
		if p.allSeen() {
			return nil
		}
		if !first && !p.repeats.take(time.Now(), g != Group{}, false, 0) {
			p.unexamined++
			return nil
		}
	case known && before == lost:
		p.unexamined--
	case known:
		if first && before != nil {
			before.kept.Store(true)
		}
		return p.repeat(e, g)
	}
	if p.ended = p.ended || s.Candidate.spent.Load(); p.ended {
		p.unexamined++
		p.note(key, keyed, lost)
		return nil
	}
	p.pending++
	p.note(key, keyed, e)
	return e
}

// repeat returns a request whose leaves are known, if it is to be examined all the same. The lock is held.
func (p *Pair) repeat(e *examination, g Group) *examination {
	if p.items == nil || p.ended || p.allSeen() || !p.repeats.take(time.Now(), g != Group{}, true, p.pending) {
		return nil
	}
	e.repeated = true
	p.repeats.waiting++
	return e
}

// lost is in place of a request that was not examined.
var lost = &examination{}

// note notes that a request waits, or what became of it. The lock is held.
func (p *Pair) note(key leaves, keyed bool, became *examination) {
	if !keyed {
		return
	}
	if p.examined == nil || len(p.examined) >= maxExamined {
		p.examined = make(map[leaves]*examination)
	}
	p.examined[key] = became
}

// ask has the request evaluated, behind what waits.
func (e *examination) ask() {
	remote := e.of.Candidate.Remote
	body := remote.ReadsBody() || e.of.Live.Policy.Compiled().MayReadBody()
	finish := finished(e.answered)
	asked := supervisor.Examination{Bytes: e.of.Bytes, Kept: e.kept.Load, Spare: e.repeated, Prepare: func() (wire.DecisionRequest, bool) {
		if !e.prepare() {
			return wire.DecisionRequest{}, false
		}
		return e.examiner.request(&e.of, body, func(err error) { finish(wire.Shown{}, err) })
	}}
	if err := remote.Show(func() []byte { return e.text }, asked, finish); err != nil {
		finish(wire.Shown{}, err)
	}
}

// prepare reports whether the request is to be evaluated now. If not, it has gone on otherwise.
func (e *examination) prepare() bool {
	p := e.pair
	p.mu.Lock()
	ended, known := p.ended || e.of.Candidate.spent.Load() || e.examiner.ended.Load(), p.items != nil
	switch {
	case known && e.distinct():
		e.text = p.items.text
	case known:
		e.text = p.items.unseen
	}
	p.mu.Unlock()
	switch {
	case ended:
		e.end(false)
	case !known: // it is tried again, behind this one
		e.ask()
	case p.over.Load():
		e.end(true)
	default:
		return true
	}
	return false
}

// answered takes what the request has shown. What failed is tried once more; but not what had to make room.
func (e *examination) answered(shown wire.Shown, err error) {
	e.of.Candidate.examined(err)
	switch {
	case err == nil && !shown.Unlisted:
		if e.pair.see(shown, e.distinct()) {
			e.pair.changed()
		}
		e.end(true)
	case isGone(err):
		e.pair.end()
		e.end(false)
	case e.tried, e.repeated, errors.Is(err, supervisor.ErrQueueFull):
		e.end(false)
	default:
		if e.tried = true; shown.Unlisted { // another process has the lane
			e.examiner.compare(e.of.Live.Source, e.of.Candidate, e.pair)
		}
		e.ask()
	}
}

// end ends it, for the request was examined, or will not be.
func (e *examination) end(examined bool) {
	defer e.examiner.underWay.Done()
	p := e.pair
	p.mu.Lock()
	if e.repeated {
		p.repeats.waiting--
		p.mu.Unlock()
		return
	}
	p.pending--
	if examined {
		p.note(e.key, e.keyed, nil)
	} else {
		p.note(e.key, e.keyed, lost)
		p.unexamined++
	}
	done := p.pending == 0
	p.mu.Unlock()
	if done && p.reported.CompareAndSwap(true, false) {
		p.changed()
	}
}

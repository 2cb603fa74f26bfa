package examine

import (
	"errors"
	"sync/atomic"

	"understudy/authz"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
	"understudy/rego/coverage"
)

// Group is a group of differences, as coverage tells them apart; the zero value is that of no difference.
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
	// maxDiffs is how often it is tried to find out what the change is.
	maxDiffs = 2
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

// covering is one request that both sides evaluate, the experiment's first: before that task of its lane, it
// was found out there what the change is.
type covering struct {
	examiner *Examiner
	of       Subject
	pair     *Pair
	key      coveredKey
	keyed    bool
	// kept says that the request is an example of a difference, for which others make room.
	kept atomic.Bool

	// What follows belongs to who asks, or is answered.

	// live says that the live side is asked now, and pending is what is asked for.
	live    bool
	pending []int
	text    []byte
	// tried says that it failed before.
	tried bool
}

// Cover has both policies evaluate a request for the coverage of their change, if that may tell anything new.
// The first requests of each group of differences always are: what turned a request away was exercised. It
// never waits.
func (x *Examiner) Cover(s Subject, p *Pair, g Group) {
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
	if v := x.put(s, p, g); v != nil {
		x.underWay.Add(1)
		v.ask()
	}
}

// examinable reports whether both policies evaluate the request; a live one without rules
// need not.
func (s *Subject) examinable() bool {
	return s.Request.Operation != authz.OperationOnEnd && !s.Candidate.Exempted.Cover(s.Request) && !s.Live.Policy.Compiled().Exempts(s.Request)
}

// leaves returns the leaves of the request. keyed is false if one is not known: then the decision of that
// side is not cached. A side without rules learns nothing, and has none.
func (s *Subject) leaves() (key coveredKey, keyed bool) {
	key = coveredKey{live: s.Decision.Leaf(), candidate: s.Leaf}
	none := authz.Leaf{}
	return key, (key.live != none || s.Live.Policy.Compiled().NoOp()) && (key.candidate != none || len(s.Candidate.Source.GetRules()) == 0)
}

// compare asks what the change is.
func (x *Examiner) compare(live *authz.Packed, c *Candidate, p *Pair) {
	x.underWay.Add(1)
	finish := finished(func(changes coverage.Changes, err error) {
		defer x.underWay.Done()
		c.examined(err)
		p.mu.Lock()
		again := false
		if err == nil {
			p.learn(changes)
		} else {
			p.diffs++
			p.ended = isGone(err) || p.diffs >= maxDiffs || x.ended.Load()
			again = !p.ended
		}
		p.mu.Unlock()
		if again {
			x.compare(live, c, p)
		} else {
			p.changed()
		}
	})
	if err := c.Remote.Changes(live, c.Source, finish); err != nil {
		finish(coverage.Changes{}, err)
	}
}

// isGone reports whether who was asked will never answer any more.
func isGone(err error) bool {
	guilt := (*supervisor.Guilt)(nil)
	return errors.Is(err, supervisor.ErrChanged) || errors.Is(err, supervisor.ErrShutdown) || errors.As(err, &guilt)
}

// put returns a request that is to be evaluated; nil if it is not.
func (x *Examiner) put(s Subject, p *Pair, g Group) *covering {
	key, keyed := s.leaves()
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.isFirst(g)
	switch before, known := p.covered[key]; {
	case !keyed || !known:
	case before == lost:
		p.unexamined--
	default:
		if first && before != nil {
			before.kept.Store(true)
		}
		return nil
	}
	if p.ended = p.ended || s.Candidate.spent.Load(); p.ended {
		p.unexamined++
		p.note(key, keyed, lost)
		return nil
	}
	v := &covering{examiner: x, of: s, pair: p, key: key, keyed: keyed}
	v.kept.Store(first)
	p.pending++
	p.note(key, keyed, v)
	return v
}

// lost is in place of a request that was not evaluated.
var lost = &covering{}

// note notes that a request waits, or what became of it. The lock is held.
func (p *Pair) note(key coveredKey, keyed bool, became *covering) {
	if !keyed {
		return
	}
	if p.covered == nil || len(p.covered) >= maxCovered {
		p.covered = make(map[coveredKey]*covering)
	}
	p.covered[key] = became
}

// ask has a side evaluate the request, behind what waits there.
func (v *covering) ask() {
	remote, body := v.of.Candidate.Remote, v.of.Candidate.Remote.ReadsBody()
	if v.live {
		remote, body = v.examiner.config.Live.Of(v.of.Live), v.of.Live.Policy.Compiled().MayReadBody()
	}
	finish := finished(v.answered)
	asked := supervisor.Examination{Bytes: v.of.Bytes, Kept: v.kept.Load, Prepare: func() (wire.Question, bool) {
		if !v.prepare() {
			return wire.Question{}, false
		}
		return v.examiner.question(&v.of, body, func(err error) { finish(nil, err) })
	}}
	if err := remote.Cover(func() []byte { return v.text }, asked, finish); err != nil {
		finish(nil, err)
	}
}

// side is the one that is asked.
func (v *covering) side() *sideCoverage {
	if v.live {
		return &v.pair.live
	}
	return &v.pair.candidate
}

// prepare reports whether the side is to be asked now. If not, it has gone on otherwise.
func (v *covering) prepare() bool {
	p := v.pair
	p.mu.Lock()
	ended, known := p.ended || v.of.Candidate.spent.Load() || v.examiner.ended.Load(), p.changes != nil
	v.pending, v.text = v.side().pending, v.side().text
	p.mu.Unlock()
	switch {
	case ended:
		v.end(false)
	case !known: // it is tried again, behind this one
		v.ask()
	case len(v.pending) == 0:
		v.goOn()
	default:
		return true
	}
	return false
}

// answered takes the answer of a side. What failed is tried once more; but not what had to make room.
func (v *covering) answered(seen []coverage.Seen, err error) {
	v.of.Candidate.examined(err)
	switch {
	case err == nil:
		if v.pair.see(v.side(), v.pending, seen) {
			v.pair.changed()
		}
		v.goOn()
	case isGone(err) && (!v.live || !errors.Is(err, supervisor.ErrChanged)): // another live policy may have its place for a while
		v.pair.end()
		v.end(false)
	case v.tried, errors.Is(err, supervisor.ErrQueueFull):
		v.end(false)
	default:
		v.tried = true
		v.ask()
	}
}

// goOn has the other side asked, or ends it after both.
func (v *covering) goOn() {
	if v.live || v.pair.over.Load() {
		v.end(true)
		return
	}
	v.live = true
	v.ask()
}

// end ends it, for the request was evaluated, or will not be.
func (v *covering) end(evaluated bool) {
	p := v.pair
	p.mu.Lock()
	p.pending--
	if evaluated {
		p.note(v.key, v.keyed, nil)
	} else {
		p.note(v.key, v.keyed, lost)
		p.unexamined++
	}
	settled := p.pending == 0
	p.mu.Unlock()
	if settled && p.told.CompareAndSwap(true, false) {
		p.changed()
	}
	v.examiner.underWay.Done()
}

// end ends the coverage: what waits is not evaluated.
func (p *Pair) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

func (p *Pair) changed() {
	if p.Changed != nil {
		p.Changed()
	}
}

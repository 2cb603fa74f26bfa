package examine

import (
	"sync"
	"sync/atomic"

	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
	"understudy/rego/change"
)

// Progress is what the requests that were compared have shown of the items in which the live policy and an
// experiment differ, so far.
type Progress struct {
	// Items are the counts; nil until the items are known.
	Items *evidencepb.Items
	// Pending is how many requests are still to be examined, of those of which both policies learned the same
	// only one. It is at least 1 until the items are known.
	Pending int64
	// Unexamined is how many could not be, and are not tried again: there was no room, or the evaluation
	// failed. One of which both policies learned the same may be examined later.
	Unexamined int64
}

// maxExamined is how many distinct requests are known to be examined, or not. Beyond, all are forgotten, and
// some examined again.
const maxExamined = 4096

// Pair is a live policy and an experiment, from the first request that was compared. Decisions are cached, and
// what is cached is not evaluated: so requests are examined by themselves, one of all those of which both
// policies learned the same, as long as some item was not shown often enough. The zero value has begun with
// nothing. It is safe for concurrent use.
type Pair struct {
	// Changed is called when Progress has something new, by any goroutine. It is set before the first
	// use; nil is called never.
	Changed func()

	// over says that there is nothing more to learn.
	over  atomic.Bool
	begun atomic.Bool
	// reported says that the last Progress had requests pending.
	reported atomic.Bool

	mu sync.Mutex
	// items are what was shown; nil until it is known in what the policies differ.
	items *shown
	// examined :: what was learned of a request → that request while it waits; nil if it was examined, lost if it was not.
	examined map[leaves]*examination
	// pending and unexamined are those that wait, and that were not examined.
	pending, unexamined int64
	// ended says that nothing is examined any more, though there would be more to learn.
	ended bool
	// failures is how often it could not be found out in what the policies differ.
	failures int
	// firsts :: group of differences → how many requests of it were examples.
	firsts map[Group]int
	// repeats says which of the requests are examined that may be of leaves that were examined.
	repeats repeats
}

// leaves are what both policies have learned of a request.
type leaves struct{ live, candidate authz.Leaf }

// shown is how many requests have shown each item.
type shown struct {
	*change.Counts
	digest []byte
	items  int
	// text is how what is pending is asked for, and unseen how what no request has shown is.
	text, unseen []byte
}

func newShown(l wire.Listed) *shown {
	s := &shown{Counts: change.NewCounts(l.Conditions), digest: l.Digest, items: len(l.Conditions)}
	s.narrow()
	return s
}

// narrow leaves out what is not looked for any more.
func (s *shown) narrow() {
	s.text = s.asking(s.Pending)
	s.unseen = s.asking(func(item int) bool { return !s.Seen(item) })
}

// asking is how the items are asked for of which of is true.
func (s *shown) asking(of func(item int) bool) []byte {
	bits := make([]byte, (s.items+7)/8)
	for i := range s.items {
		if of(i) {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return supervisor.Pending(s.digest, bits)
}

// add adds what a request has shown, and reports whether that is anything new.
func (s *shown) add(of wire.Shown, distinct bool) (news bool) {
	for i, item := range of.Items[:min(len(of.Items), len(of.What))] {
		add := s.AddRepeated
		if distinct {
			add = s.Add
		}
		news = add(item, of.What[i]) || news
	}
	if news {
		s.narrow()
	}
	return news
}

// message returns the counts as evidence has them.
func (s *shown) message() *evidencepb.Items {
	yes, no := s.Numbers()
	return &evidencepb.Items{Digest: s.digest, Shown: yes, Untrue: no}
}

// Progress returns what requests have shown so far. A new version of either policy begins anew.
func (p *Pair) Progress() Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := Progress{Pending: p.pending, Unexamined: p.unexamined}
	if p.items != nil {
		out.Items = p.items.message()
	}
	switch {
	case p.allSeen():
		out.Pending, out.Unexamined = 0, 0
	case p.ended: // what waits will not be examined
		out.Pending, out.Unexamined = 0, max(1, out.Unexamined+out.Pending)
	case p.items == nil && p.begun.Load(): // with the first request that both decide: until then there is nothing to examine
		out.Pending = max(1, out.Pending)
	}
	p.reported.Store(out.Pending > 0)
	return out
}

// allSeen reports whether requests have shown all items. The lock is held.
func (p *Pair) allSeen() bool { return p.items != nil && p.items.AllSeen() }

// learn takes in what the policies differ. The lock is held.
func (p *Pair) learn(l wire.Listed) {
	if p.items == nil || string(p.items.digest) != string(l.Digest) {
		p.items = newShown(l)
	}
	p.over.Store(p.items.Done())
}

// see takes what a request has shown, and reports whether that is anything new.
func (p *Pair) see(of wire.Shown, distinct bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.items == nil {
		return false
	}
	news := p.items.add(of, distinct)
	p.over.Store(p.items.Done())
	return news
}

// end ends the examinations: what waits is not examined.
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

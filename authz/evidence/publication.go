package evidence

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
)

// publication returns what is to be published now, and false if there is nothing that can be.
// As long as it is not known whether the store has the last one, that is it: so there is never
// more than one of which that is not known, and whatever the store has settled, what came
// after is known. interval is the time within which there will be another one.
func (t *Tally) publication(now time.Time, interval time.Duration, final bool) (authz.PublishedEvidence, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shown = t.shown || t.counted()
	if t.unknown != nil {
		t.behind = true
		return *t.unknown, true
	}
	t.behind, t.replayEnded = false, false
	e := t.snapshot(now)
	e.PublishInterval, e.Final = durationpb.New(interval), final
	if final {
		EndExamining(e)
	}
	value, err := proto.Marshal(e)
	if err != nil {
		return authz.PublishedEvidence{}, false // of valid UTF-8 there is none
	}
	t.serial++
	if final && t.final == 0 {
		t.final = t.serial
	}
	t.unknown = &authz.PublishedEvidence{Experiment: t.experiment, UID: t.uid, Tally: t.id, Serial: t.serial, Value: value}
	return *t.unknown, true
}

// EndExamining says of evidence that nothing is evaluated for coverage any more: requests that
// were to be could not be.
func EndExamining(e *evidencepb.Evidence) {
	for _, p := range allPairs(e) {
		p.Pending, p.Unexamined = 0, p.GetPending()+p.GetUnexamined()
	}
}

// startRefresh notes that whatever there is to set is set now, and taken then, unless the last
// publication has to be made again.
func (t *Tally) startRefresh() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = t.changed && t.unknown != nil
}

// hasNews reports whether there is something beside counts that was not taken, of a tally of
// which comparisons were published.
func (t *Tally) hasNews() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shown && t.changed && t.unknown == nil
}

// acknowledge notes that the store has the tally up to a serial. It reports whether that was
// all.
func (t *Tally) acknowledge(id string, serial int64, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.id != id {
		return false
	}
	t.published = now
	if t.unknown != nil && serial >= t.unknown.Serial {
		t.unknown, t.unsaved = nil, t.later
		t.taken.gainSum(t.later)
		t.later = newTaken(t.patterns)
	}
	return t.final != 0 && serial >= t.final && !t.counted()
}

// settle notes that the store has settled the tally at a serial: what came after is counted as
// another tally. It reports whether it is this one.
func (t *Tally) settle(id string, serial int64, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.id != id {
		return false
	}
	if t.unknown != nil && serial >= t.unknown.Serial {
		t.unsaved = newTaken(t.patterns)
	}
	t.renew(now)
	return true
}

// expire is settle for a tally of which the store may not know any more whether it was. What
// may have been stored is taken for stored, so that nothing is counted twice.
func (t *Tally) expire(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.published) > staleTime {
		if t.unknown != nil {
			t.unsaved = newTaken(t.patterns)
		}
		t.renew(now)
	}
}

// renew begins a new tally in the store, with what is not stored of the one before.
func (t *Tally) renew(now time.Time) {
	t.unsaved.gainSum(t.later)
	t.taken, t.later = newTaken(t.patterns), newTaken(t.patterns)
	t.taken.gainSum(t.unsaved)
	t.id, t.serial, t.unknown, t.final, t.published, t.behind = uuid.NewString(), 0, nil, 0, now, true
}

// answered notes that the store answered, and knows nothing of the tally's end.
func (t *Tally) answered(id string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.id != id {
		return false
	}
	t.published = now
	return true
}

// counting reports whether something was counted that no publication has.
func (t *Tally) counting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counted()
}

// fresh reports whether something was counted and nothing was published yet, or nothing that
// was counted in an outage which is over, or nothing since a replay has ended.
func (t *Tally) fresh() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.replayEnded && t.unknown == nil || (!t.shown || t.behind && t.unknown == nil) && t.counted()
}

func (t *Tally) counted() bool {
	return t.later.counted() || t.unknown == nil && t.unsaved.counted() ||
		slices.ContainsFunc(t.counters, func(c *counter) bool { return !c.counts.none() })
}

// over reports whether nothing is counted any more.
func (t *Tally) over(now time.Time, closed bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.ended.IsZero() && (closed || now.Sub(t.ended) >= lateTime)
}

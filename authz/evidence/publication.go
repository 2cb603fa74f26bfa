package evidence

import (
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"understudy/authz"
)

// lost is the reason of comparisons that were made and counted, but could not be published.
const lost = "lost"

// publications is what is known of the publications of a tally, under its present ID.
type publications struct {
	// id is the tally's name in the store. serial is that of the last publication, and grows with
	// each; 0 before the first.
	id     string
	serial int64
	// answered is when the store last took a publication, or when the ID began.
	answered time.Time
	// requests: counted under this ID. sent: in the last publication. stored: acknowledged by the
	// store.
	requests, sent, stored int64
	// final is the last publication under an earlier ID. It is returned again, unchanged, until the
	// store has acknowledged it.
	final *finalPublication
}

// finalPublication is the last one under an ID.
type finalPublication struct {
	authz.PublishedEvidence
	// made is when it was made. unstored: requests in it that the store has not acknowledged.
	made     time.Time
	unstored int64
}

// due returns what is to be published now: the final publication under an earlier ID, and what was
// counted under this one. interval is the time within which there will be another one; closed says
// that nothing is counted any more of an experiment that is not ACTIVE.
// refresh is [Active.Refresh].
func (t *Tally) due(now time.Time, interval time.Duration, closed bool, refresh func(*Sum)) (out []authz.PublishedEvidence) {
	t.mu.Lock()
	defer t.mu.Unlock()
	over := t.isOver(now, closed)
	t.changed = false
	t.giveUp(now)
	if refresh != nil {
		refresh(t.sum)
	}
	if t.final != nil {
		out = append(out, t.final.PublishedEvidence)
	}
	if over && (t.final != nil || t.unused()) {
		return out // one at a time, and of nothing there is no end
	}
	p, ok := t.publication(now, interval, over)
	if ok {
		out = append(out, p)
	}
	return out
}

// unused reports whether nothing was counted under the present ID, and nothing published.
func (t *Tally) unused() bool { return t.serial == 0 && t.requests == 0 }

// publication makes the next one. If it is final, another ID begins.
func (t *Tally) publication(now time.Time, interval time.Duration, final bool) (authz.PublishedEvidence, bool) {
	if final {
		t.sum.EndExaminations()
	}
	e := t.snapshot(now)
	e.PublishInterval, e.Final = durationpb.New(interval), final
	value, err := proto.Marshal(e)
	if err != nil {
		return authz.PublishedEvidence{}, false // of valid UTF-8 there is none
	}
	t.serial++
	t.sent = t.requests
	out := authz.PublishedEvidence{Experiment: t.content.Experiment, UID: t.content.UID, Tally: t.id, Serial: t.serial, Value: value}
	if final {
		t.renew(now)
		t.final = &finalPublication{out, now, t.sent - t.stored}
	}
	return out, true
}

// renew begins another ID, with nothing counted.
func (t *Tally) renew(now time.Time) {
	t.sum = NewSum(t.content, t.patterns)
	t.sum.Keep(t.kept)
	t.publications = publications{id: uuid.NewString(), answered: now, final: t.final}
	t.since = max(t.since, now.UnixMilli())
}

// giveUp drops what could not be published for staleTime: the store may have folded the tally into its sum by
// now, and a later publication would count twice. The requests are counted as lost.
func (t *Tally) giveUp(now time.Time) {
	if t.final != nil && now.Sub(t.final.made) > staleTime {
		t.lose(t.final.unstored, now)
		t.final = nil
	}
	if now.Sub(t.answered) > staleTime {
		missing := t.requests - t.stored
		t.renew(now)
		t.lose(missing, now)
	}
}

// lose counts requests as lost.
func (t *Tally) lose(n int64, now time.Time) {
	if n > 0 {
		t.requests += n
		t.sum.lose(t.policyEtag, n, now)
	}
}

// acknowledge notes that the store has a publication.
func (t *Tally) acknowledge(id string, serial int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.final != nil && t.final.Tally == id:
		t.final = nil
	case t.id == id && serial == t.serial:
		t.answered, t.stored = now, t.sent
	}
}

// is reports whether a publication is one of the tally.
func (t *Tally) is(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id == id || t.final != nil && t.final.Tally == id
}

// refuse notes that the store has ended an ID at a serial, or, with 0, that it knows no such
// experiment.
func (t *Tally) refuse(id string, serial int64, now time.Time) {
	if !t.is(id) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case serial == 0:
		t.answered = now
	case t.final != nil && t.final.Tally == id:
		if serial < t.final.Serial {
			t.lose(t.final.unstored, now)
		}
		t.final = nil
	default:
		missing := t.requests - t.stored
		if serial >= t.serial {
			missing = t.requests - t.sent
		}
		t.renew(now)
		t.lose(missing, now)
	}
}

// finished reports whether nothing is counted any more, and nothing left to be published.
func (t *Tally) finished(now time.Time, closed bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.isOver(now, closed) && t.final == nil && t.unused()
}

// fresh reports whether something was counted and nothing of it was published yet.
func (t *Tally) fresh() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent == 0 && t.requests > 0
}

// hasNews reports whether there is something besides counts that was not published, of a tally of which
// comparisons were.
func (t *Tally) hasNews() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed && t.sent > 0
}

// isOver reports whether nothing is counted any more.
func (t *Tally) isOver(now time.Time, closed bool) bool {
	return !t.ended.IsZero() && (closed || now.Sub(t.ended) >= lateTime)
}

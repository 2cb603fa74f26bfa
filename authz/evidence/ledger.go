package evidence

import (
	"slices"
	"sync"
	"time"

	"understudy/authz"
)

// lateTime is for how long comparisons that were under way when an experiment ended are waited
// for before its tally is final.
const lateTime = 2 * time.Second

// staleTime is for how long the store may be away before the sidecar gives up what it could not publish. It is
// less than the time for which the store remembers that a tally is over, and less than that after which the
// store takes a silent tally for over.
const staleTime = authz.TallyKept / 4

// Ledger has the tallies of a sidecar: those of experiments that are ACTIVE, and those of which
// the last counts are not published yet. It is safe for concurrent use.
type Ledger struct {
	mu       sync.Mutex
	patterns map[string]*Patterns
	active   []Active
	ended    []*Tally
	closed   bool
	started  time.Time
	// clock is that of the wall, but in tests: a machine that was suspended was away.
	clock func() time.Time
}

// NewLedger returns an empty ledger of a process, with the time at which that started: of two
// processes of one node, the one that started first is over.
func NewLedger(started time.Time) *Ledger {
	return &Ledger{patterns: make(map[string]*Patterns), started: started, clock: func() time.Time { return time.Now().Round(0) }}
}

// Tally returns a new tally of a content of an experiment, with what that expects. Its patterns are shared with the
// other experiments of the policy. It is not published before Follow has it.
func (l *Ledger) Tally(of Content, expects Expectations) *Tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	policy := string(authz.ResourceName(of.Experiment).Policy())
	if l.patterns[policy] == nil {
		l.patterns[policy] = NewPatterns()
	}
	t := NewTally(of, expects, l.patterns[policy])
	t.started, t.answered = l.started, l.clock()
	return t
}

// Active is an experiment that is compared.
type Active struct {
	Tally *Tally
	// PolicyEtag is that of the live policy that it is compared with.
	PolicyEtag string
	// Refresh sets what the sum of the tally has besides counts. It is called for each publication, while
	// the tally is locked: what it sets is at least as new as the counts, and it may not call the tally.
	// It may be nil.
	Refresh func(*Sum)
}

// Follow says which experiments are compared from now on. The tallies of others are over, and
// are published a last time.
func (l *Ledger) Follow(active []Active) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow(active)
}

func (l *Ledger) follow(active []Active) {
	now := l.clock()
	policies := make(map[string]*Patterns)
	for _, a := range l.active {
		a.Tally.refresh(a.Refresh)
	}
	for _, a := range active {
		l.drop(a.Tally)
		a.Tally.begin(a.PolicyEtag, now)
		policies[string(authz.ResourceName(a.Tally.content.Experiment).Policy())] = a.Tally.patterns
	}
	for _, before := range l.active {
		if t := before.Tally; !slices.ContainsFunc(active, func(a Active) bool { return a.Tally == t }) {
			t.end(now)
			l.ended = append(l.ended, t)
		}
	}
	l.active, l.patterns = slices.Clone(active), policies
}

// Close ends all tallies: what is due then is final.
func (l *Ledger) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.follow(nil)
}

// Due returns what is to be published now: what each tally has counted since it began, also if
// nothing was, for that says that the node reports. A final publication is the same each time until
// Published or Refused says what became of it; any other is replaced by the next one. interval is the
// time within which Due will be called again.
func (l *Ledger) Due(interval time.Duration) []authz.PublishedEvidence {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	refreshes := make(map[*Tally]func(*Sum))
	for _, a := range l.active {
		refreshes[a.Tally] = a.Refresh
	}
	var out []authz.PublishedEvidence
	for _, t := range l.tallies() {
		out = append(out, t.due(now, interval, l.closed, refreshes[t])...)
		l.forget(t)
	}
	return out
}

// Published says that the store has a tally up to a serial. A tally whose last counts it has
// is gone from the ledger.
func (l *Ledger) Published(tally string, serial int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tallies() {
		t.acknowledge(tally, serial, l.clock())
		l.forget(t)
	}
}

// Refused says that the store took nothing of a tally, for it took it for over at a serial. What was
// counted since that publication is lost, and counted as such. A store does that to a tally that
// was not published for a day, or by an earlier process.
//
// With serial 0 it is not over, but the experiment is gone: the tally goes on until the
// experiment is no longer compared, for a store that has lost it may get it back.
func (l *Ledger) Refused(tally string, serial int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tallies() {
		t.refuse(tally, serial, l.clock())
		if l.forget(t); serial == 0 && t.is(tally) {
			l.drop(t)
		}
	}
}

// Fresh reports whether a tally has comparisons and none was published yet: a user who has just
// started the experiment waits for the first of them.
func (l *Ledger) Fresh() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.tallies(), (*Tally).fresh)
}

// Unfinished reports whether the ledger is closed and not all is published.
func (l *Ledger) Unfinished() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed && len(l.ended) > 0
}

// Changed reports whether a tally has something new besides counts since it was due last: causes that
// were found, or items that were shown.
func (l *Ledger) Changed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.tallies(), (*Tally).hasNews)
}

// tallies returns those that are active, then those that ended.
func (l *Ledger) tallies() []*Tally {
	out := make([]*Tally, 0, len(l.active)+len(l.ended))
	for _, a := range l.active {
		out = append(out, a.Tally)
	}
	return append(out, l.ended...)
}

// forget drops a tally of which nothing is left to be published.
func (l *Ledger) forget(t *Tally) {
	if t.finished(l.clock(), l.closed) {
		l.drop(t)
	}
}

func (l *Ledger) drop(t *Tally) {
	l.ended = slices.DeleteFunc(l.ended, func(known *Tally) bool { return known == t })
}

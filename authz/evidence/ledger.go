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

// staleTime is for how long a tally that could not be published is taken for one that was not
// settled meanwhile. A store knows for longer that it was. After that time, what the last
// publication had beside the ones before is lost if it was not stored, and nothing else.
const staleTime = authz.TallyKept / 2

// Ledger has the tallies of a sidecar: those of experiments that are ACTIVE, and those of which
// the last counts are not published yet. It is safe for concurrent use.
type Ledger struct {
	mu       sync.Mutex
	patterns map[string]*Patterns
	active   []Active
	ended    []*Tally
	closed   bool
	// clock is time.Now, but in tests.
	clock func() time.Time
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{patterns: make(map[string]*Patterns), clock: time.Now}
}

// Tally returns a new tally of an experiment: its resource name, its unique ID, and the etag of
// its content. Its patterns are shared with the other experiments of the policy. It is not
// published before Follow has it.
func (l *Ledger) Tally(experiment, uid, etag string) *Tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	policy := string(authz.ResourceName(experiment).Policy())
	if l.patterns[policy] == nil {
		l.patterns[policy] = NewPatterns()
	}
	return NewTally(experiment, uid, etag, l.patterns[policy])
}

// Active is an experiment that is compared.
type Active struct {
	Tally *Tally
	// PolicyEtag is that of the live policy that it is compared with.
	PolicyEtag string
	// Refresh is called before what is due is made, to set what the tally has beside counts.
	// It may be nil.
	Refresh func()
}

func (a Active) refresh() {
	if a.Refresh != nil {
		a.Refresh()
	}
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
		a.refresh()
	}
	for _, a := range active {
		l.drop(a.Tally)
		a.Tally.begin(a.PolicyEtag, now)
		policies[string(authz.ResourceName(a.Tally.experiment).Policy())] = a.Tally.patterns
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
// nothing was, for that says that the node reports. Until Published or Refused says what became
// of it, it is the same each time. interval is the time within which Due will be called again.
func (l *Ledger) Due(interval time.Duration) []authz.PublishedEvidence {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	for _, t := range l.tallies() {
		t.startRefresh()
	}
	for _, a := range l.active {
		a.refresh()
	}
	var out []authz.PublishedEvidence
	for _, t := range l.tallies() {
		t.expire(now)
		if e, ok := t.publication(now, interval, t.over(now, l.closed)); ok {
			out = append(out, e)
		}
	}
	return out
}

// Published says that the store has a tally up to a serial. A tally whose last counts it has
// is gone from the ledger.
func (l *Ledger) Published(tally string, serial int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tallies() {
		if t.acknowledge(tally, serial, l.clock()) {
			l.drop(t)
		}
	}
}

// Refused says that the store took nothing of a tally, for it was settled at a serial. What was
// counted since that publication is published as another tally, unless the experiment is no
// longer compared and nothing was. Nothing is counted twice, and nothing is lost.
//
// With serial 0 it was not settled, but the experiment is gone: the tally goes on until the
// experiment is no longer compared, for a store that has lost it may get it back.
func (l *Ledger) Refused(tally string, serial int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tallies() {
		if serial == 0 && t.answered(tally, l.clock()) || serial > 0 && t.settle(tally, serial, l.clock()) && !t.counting() {
			l.drop(t)
		}
	}
}

// Fresh reports whether there are comparisons of a tally of which none was ever due: whoever
// has just started an experiment waits for the first of them. So it does after an outage, whose
// comparisons only this process has.
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

// Changed reports whether a tally has more to tell beside counts than when it was due last:
// causes that were found, or rules that were exercised.
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

func (l *Ledger) drop(t *Tally) {
	l.ended = slices.DeleteFunc(l.ended, func(known *Tally) bool { return known == t })
}

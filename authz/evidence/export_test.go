package evidence

import "time"

// Size returns how many nodes and patterns there are.
func (s *Patterns) Size() (nodes, patterns int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.nodes, s.made
}

// SetClock replaces the clock.
func (s *Patterns) SetClock(clock func() time.Time) { s.clock, s.halved = clock, clock() }

// SetClock replaces the clock.
func (l *Ledger) SetClock(clock func() time.Time) { l.clock = clock }

// Refresh calls a function as [Active.Refresh] is called.
func (t *Tally) Refresh(set func(*Sum)) { t.refresh(set) }

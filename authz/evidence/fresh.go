package evidence

// Fresh reports whether there are comparisons of a tally of which nothing was ever due:
// whoever has just started an experiment waits for the first of them.
func (l *Ledger) Fresh() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.active {
		if t.fresh() {
			return true
		}
	}
	return false
}

func (t *Tally) fresh() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.taken.pairs {
		if p.counts != ([kinds + 1]int64{}) {
			return false
		}
	}
	for _, c := range t.counters {
		if c.counts != ([kinds + 1]int64{}) {
			return true
		}
	}
	return false
}

package supervisor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestASuspensionEnds: that of a live policy does, after which one death suspends nobody; that of
// an experiment does not.
func TestASuspensionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			suspension time.Duration
			ends       bool
		}{"a live policy": {10 * time.Minute, true}, "an experiment": {0, false}} {
			s := &Supervisor{metrics: &metrics{}, lanes: make(map[uint64]*lane)}
			l := &lane{s: s, laneOptions: laneOptions{room: 1, suspension: tt.suspension}}
			for range strikesToSuspend {
				s.strike(suspect{lane: l}, end{cause: causeMemory})
			}
			if !l.isSuspended() {
				t.Fatalf("%s: three deaths do not suspend it", name)
			}
			time.Sleep(10*time.Minute - time.Nanosecond)
			if !l.isSuspended() {
				t.Errorf("%s: it is asked again too early", name)
			}
			time.Sleep(2 * time.Nanosecond)
			if l.isSuspended() == tt.ends {
				t.Errorf("%s: after ten minutes it is suspended: %v", name, !tt.ends)
			}
			if v := s.strike(suspect{lane: l}, end{cause: causeMemory}); tt.ends && (v.suspended || l.isSuspended()) {
				t.Errorf("%s: one more death suspends it", name)
			}
			if crash := (*CrashError)(nil); !tt.ends && !errors.As(error(l.suspended), &crash) {
				t.Errorf("%s: it is suspended for %v", name, l.suspended)
			}
		}
	})
}

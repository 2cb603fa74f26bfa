package authz

import "testing"

// ended reports whether the listener of a worker's bell is gone.
func ended(t *turns) bool {
	select {
	case _, open := <-t.heard:
		return !open
	default:
		return false
	}
}

// TestNoListenerOutlivesItsWorker: a worker that ends takes the one who listens to its
// bell along.
func TestNoListenerOutlivesItsWorker(t *testing.T) {
	for range 100 {
		worker := &turns{}
		for range 3 {
			if err := worker.ring(); err != nil {
				t.Fatal(err)
			}
		}
		worker.close()
		if !ended(worker) {
			t.Fatal("somebody still listens")
		}
	}
}

// TestABrokenBellIsMute: a worker whose bell cannot be rung any more goes on without.
func TestABrokenBellIsMute(t *testing.T) {
	worker := &turns{}
	worker.next()
	if err := worker.bell.Close(); err != nil {
		t.Fatal(err)
	}
	for !worker.mute {
		worker.since = worker.since.Add(-quantum)
		worker.next()
	}
	worker.close()
	if !ended(worker) {
		t.Error("somebody still listens")
	}
}

// TestTurnsOfNobody: a worker that never rang has nothing to close.
func TestTurnsOfNobody(t *testing.T) { (&turns{}).close() }

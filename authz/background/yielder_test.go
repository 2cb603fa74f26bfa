package background

import "testing"

// ended reports whether the reader of a worker's pipe is gone.
func ended(y *Yielder) bool {
	select {
	case _, open := <-y.delivered:
		return !open
	default:
		return false
	}
}

// TestNoReaderOutlivesItsWorker: closing a Yielder ends the goroutine that reads its pipe.
func TestNoReaderOutlivesItsWorker(t *testing.T) {
	for range 100 {
		worker := &Yielder{}
		for range 3 {
			if err := worker.poll(); err != nil {
				t.Fatal(err)
			}
		}
		worker.Close()
		if !ended(worker) {
			t.Fatal("the pipe is still read")
		}
	}
}

// TestABrokenPipeIsNotUsed: a worker whose pipe cannot be written any more goes on without.
func TestABrokenPipeIsNotUsed(t *testing.T) {
	worker := &Yielder{}
	worker.Yield()
	if err := worker.pipe.Close(); err != nil {
		t.Fatal(err)
	}
	for !worker.NoPipe {
		worker.since = worker.since.Add(-quantum)
		worker.Yield()
	}
	worker.Close()
	if !ended(worker) {
		t.Error("the pipe is still read")
	}
}

// TestClosingAnUnusedYielder: a worker that never yielded has nothing to close.
func TestClosingAnUnusedYielder(t *testing.T) { (&Yielder{}).Close() }

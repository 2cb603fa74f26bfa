package lifecycle

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestGrowth(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 400, 10 << 20: 400, 64 << 20: 400, 100 << 20: 250, 128 << 20: 200, 256 << 20: 100, 8 << 30: 100,
	} {
		if got := growth(live); got != want {
			t.Errorf("a heap of %d MiB grows by %d %%, want %d", live>>20, got, want)
		}
	}
}

// TestALargeHeapGrowsLess is about the heap of this process: it sees the percentage
// change with what is in use.
func TestALargeHeapGrowsLess(t *testing.T) {
	before := debug.SetGCPercent(mostPercent)
	afterCollection(mostPercent)
	ballast := make([]byte, 300<<20)
	deadline := time.Now().Add(time.Minute)
	for current() == mostPercent {
		if time.Now().After(deadline) {
			t.Fatal("the percentage stays")
		}
		runtime.GC()
	}
	runtime.KeepAlive(ballast)
	debug.SetGCPercent(before)
}

// current returns the percentage.
func current() int {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent
}

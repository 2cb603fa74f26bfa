package lifecycle

import (
	"errors"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"understudy/cmd/testkit"
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

func TestOwnMemory(t *testing.T) {
	none := func() (uint64, error) { return 0, memlimit.ErrNoLimit }
	for _, c := range []struct {
		name               string
		container, machine memlimit.Provider
		want               uint64
		err                error
	}{
		{"a container", memlimit.Limit(1000), memlimit.Limit(8000), 900, nil},
		{"a small container", memlimit.Limit(120), memlimit.Limit(8000), 60, nil},
		{"no container", none, memlimit.Limit(8000), 5900, nil},
		{"an unknown machine", none, none, 0, memlimit.ErrNoLimit},
	} {
		got, err := ownMemory(c.container, c.machine, 100)()
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: got %d, %v; want %d, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// TestALargeHeapGrowsLess is about the heap of this process: it sees the percentage
// change with what is in use.
func TestALargeHeapGrowsLess(t *testing.T) {
	before := debug.SetGCPercent(mostPercent)
	afterCollection(mostPercent)
	ballast := make([]byte, 300<<20)
	testkit.Await(t, "the percentage changes", func() bool {
		runtime.GC()
		return current() != mostPercent
	})
	runtime.KeepAlive(ballast)
	debug.SetGCPercent(before)
}

// current returns the percentage.
func current() int {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent
}

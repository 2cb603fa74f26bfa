package authz

import (
	"syscall"
	"testing"
)

// TestBackgroundHasTheLowestPriority looks at the thread that works, and at one that
// does not.
func TestBackgroundHasTheLowestPriority(t *testing.T) {
	// The system call counts from 40 for the highest to 1 for the lowest.
	priority := func() int {
		p, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		if err != nil {
			t.Error(err)
		}
		return 20 - p
	}
	before, during := priority(), 0
	Background(large, func() { during = priority() })
	if during != lowest {
		t.Errorf("the work has the priority %d, want %d", during, lowest)
	}
	for range 100 {
		after := make(chan int)
		go func() { after <- priority() }()
		if got := <-after; got != before {
			t.Fatalf("other work has the priority %d afterwards, want %d", got, before)
		}
	}
}

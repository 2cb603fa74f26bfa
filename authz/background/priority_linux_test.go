package background

import (
	"syscall"
	"testing"

	"understudy/cmd/testkit"
)

// TestBackgroundHasALowPriority looks at the thread that works, and at one that
// does not.
func TestBackgroundHasALowPriority(t *testing.T) {
	// The system call counts from 40 for the highest to 1 for the lowPriority.
	priority := func() int {
		p, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		if err != nil {
			t.Error(err)
		}
		return 20 - p
	}
	before, during := priority(), 0
	Run(large, func() { during = priority() })
	if during != lowPriority {
		t.Errorf("the work has the priority %d, want %d", during, lowPriority)
	}
	for range 100 {
		after := make(chan int)
		go func() { after <- priority() }()
		if got := testkit.Receive(t, "the priority after the work", after); got != before {
			t.Fatalf("other work has the priority %d afterwards, want %d", got, before)
		}
	}
}

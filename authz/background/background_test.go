package background

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestBackgroundHasAProcessorOfItsOwn runs work side by side: each has one, and none is
// left over.
func TestBackgroundHasAProcessorOfItsOwn(t *testing.T) {
	set := runtime.GOMAXPROCS(0)
	runtime.SetDefaultGOMAXPROCS()
	defer runtime.GOMAXPROCS(set)
	usual := runtime.GOMAXPROCS(0)
	var during [3]int
	var begun, seen, all sync.WaitGroup
	begun.Add(len(during))
	seen.Add(len(during))
	for i := range during {
		all.Go(func() {
			Run(large, func() {
				begun.Done()
				begun.Wait()
				during[i] = runtime.GOMAXPROCS(0)
				seen.Done()
				seen.Wait()
			})
		})
	}
	all.Wait()
	if want := [3]int{usual + 3, usual + 3, usual + 3}; during != want {
		t.Errorf("there are %d processors for Go, want %d", during, want)
	}
	if got := runtime.GOMAXPROCS(0); got != usual {
		t.Errorf("afterwards there are %d, want %d", got, usual)
	}
}

// TestBackgroundIsBounded has work within work, more than fits: it is done all the same.
func TestBackgroundIsBounded(t *testing.T) {
	usual, most, depth := runtime.GOMAXPROCS(0), 0, 0
	var deeper func()
	deeper = func() {
		most = max(most, runtime.GOMAXPROCS(0))
		if depth++; depth < 2*cap(inBackground) {
			Run(large, deeper)
		}
	}
	Run(large, deeper)
	if depth != 2*cap(inBackground) || most > usual+cap(inBackground) || len(inBackground) > 0 {
		t.Errorf("%d works, %d processors, %d left over", depth, most, len(inBackground))
	}
}

// TestBackgroundPanics has the caller panic, and says where the work did.
func TestBackgroundPanics(t *testing.T) {
	for _, bytes := range []int{0, large} {
		func() {
			defer func() {
				if cause := fmt.Sprint(recover()); !strings.Contains(cause, "oops") {
					t.Errorf("%d bytes: the panic is %q", bytes, cause)
				}
			}()
			Run(bytes, func() { panic("oops") })
			t.Errorf("%d bytes: there is no panic", bytes)
		}()
	}
	defer func() {
		if cause := fmt.Sprint(recover()); !strings.Contains(cause, "TestBackgroundPanics") {
			t.Errorf("the panic does not say where it was: %q", cause)
		}
	}()
	Run(large, func() { panic("oops") })
}

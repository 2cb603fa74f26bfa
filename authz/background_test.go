package authz

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
			Background(large, func() {
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

// TestLargePoliciesCompileAlike compiles one in the background, and one that does not
// compile.
func TestLargePoliciesCompileAlike(t *testing.T) {
	compiled := func(condition string) error {
		p := allowing("1", condition)
		p.Modules["large.rego"] = "package large\n# " + strings.Repeat("x", large)
		_, err := Compile(t.Context(), p)
		return err
	}
	if err := compiled(`input.x == "a"`); err != nil {
		t.Error(err)
	}
	if err := compiled(`unknown(1)`); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("%v is the error, want one about unknown", err)
	}
}

// TestBackgroundIsBounded has work within work, more than fits: it is done all the same.
func TestBackgroundIsBounded(t *testing.T) {
	usual, most, depth := runtime.GOMAXPROCS(0), 0, 0
	var deeper func()
	deeper = func() {
		most = max(most, runtime.GOMAXPROCS(0))
		if depth++; depth < 2*cap(inBackground) {
			Background(large, deeper)
		}
	}
	Background(large, deeper)
	if depth != 2*cap(inBackground) || most > usual+cap(inBackground) || len(inBackground) > 0 {
		t.Errorf("%d works, %d processors, %d left over", depth, most, len(inBackground))
	}
}

// TestBackgroundPanics has the caller panic, and tells where the work did.
func TestBackgroundPanics(t *testing.T) {
	for _, bytes := range []int{0, large} {
		func() {
			defer func() {
				if cause := fmt.Sprint(recover()); !strings.Contains(cause, "oops") {
					t.Errorf("%d bytes: the panic is %q", bytes, cause)
				}
			}()
			Background(bytes, func() { panic("oops") })
			t.Errorf("%d bytes: there is no panic", bytes)
		}()
	}
	defer func() {
		if cause := fmt.Sprint(recover()); !strings.Contains(cause, "TestBackgroundPanics") {
			t.Errorf("the panic does not tell where it was: %q", cause)
		}
	}()
	Background(large, func() { panic("oops") })
}

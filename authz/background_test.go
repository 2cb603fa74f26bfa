package authz

import (
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
			background(func() {
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
	large := func(condition string) error {
		p := allowing("1", condition)
		p.Modules["large.rego"] = "package large\n# " + strings.Repeat("x", largePolicy)
		_, err := Compile(t.Context(), p)
		return err
	}
	if err := large(`input.x == "a"`); err != nil {
		t.Error(err)
	}
	if err := large(`unknown(1)`); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("%v is the error, want one about unknown", err)
	}
}

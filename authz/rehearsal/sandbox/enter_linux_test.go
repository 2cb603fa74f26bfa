//go:build amd64 || arm64

package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"understudy/cmd/testkit"
)

// confined is the argument with which this binary is the program of TestGoIsAllowed.
const confined = "confined"

// TestGoIsAllowed runs a program under the filters that uses what Go's runtime has: threads,
// preemption, timers, garbage collections and memory that is given back.
func TestGoIsAllowed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience) // without preemption it has no end
	defer cancel()
	program := exec.CommandContext(ctx, "/proc/self/exe", confined)
	program.Env = append(os.Environ(), "GOMAXPROCS=2")
	if out, err := testkit.CombinedOutput(program); err != nil || string(out) != "done\n" {
		t.Fatalf("the program: %v, it says:\n%s", err, out)
	}
}

// runConfined is the program. It returns its exit code.
func runConfined() int {
	_, _ = time.Now().Local().Zone()
	if err := Enter(); err != nil {
		fmt.Println("entering:", err)
		return 1
	}
	if _, err := os.Open("/proc/self/status"); !os.IsPermission(err) {
		fmt.Println("opening a file:", err)
		return 1
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"threads", beginThreads}, {"preemption", preempt}, {"memory", useMemory},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			fmt.Println(s.name+":", err)
			return 1
		}
	}
	fmt.Println("done")
	return 0
}

// beginThreads has more goroutines with a thread of their own than there are threads.
func beginThreads() error {
	const threads = 32
	var begun, group sync.WaitGroup
	begun.Add(threads)
	release := make(chan struct{})
	for range threads {
		group.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread ends, too
			begun.Done()
			<-release
		})
	}
	begun.Wait()
	close(release)
	group.Wait()
	return nil
}

// preempt stops goroutines that never stop by themselves, which takes a signal.
func preempt() error {
	var ended atomic.Bool
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for n := 0; !ended.Load(); {
				n++ // no call at which it could be stopped
			}
		})
	}
	runtime.GC()
	ended.Store(true)
	group.Wait()
	return nil
}

// useMemory makes garbage under a limit, grows a stack, and gives memory back.
func useMemory() error {
	debug.SetMemoryLimit(64 << 20)
	kept := make([][]byte, 16)
	for i := range 512 {
		kept[i%len(kept)] = make([]byte, 1<<20)
		kept[i%len(kept)][i] = 1
	}
	if deep(1<<16) != 1<<16 {
		return fmt.Errorf("a deep stack")
	}
	clear(kept)
	debug.FreeOSMemory()
	return nil
}

func deep(n int) int {
	if n == 0 {
		return 0
	}
	return deep(n-1) + 1
}

package testkit_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"understudy/cmd/testkit"
)

// TestAProcessOutlivesTheThreadOfItsCaller starts a process on a thread that ends. The process
// goes on.
func TestAProcessOutlivesTheThreadOfItsCaller(t *testing.T) {
	thread := make(chan int, 1)
	sleep := exec.Command("sleep", "600")
	onThreadThatEnds(func() {
		if err := testkit.Start(sleep); err != nil {
			t.Error(err)
			close(thread)
			return
		}
		thread <- syscall.Gettid()
	})
	task := fmt.Sprintf("/proc/self/task/%d", testkit.Receive(t, "a process is started", thread))
	t.Cleanup(func() {
		_ = sleep.Process.Kill()
		_ = sleep.Wait()
	})
	testkit.Await(t, "the thread ends", func() bool {
		_, err := os.Stat(task)
		return os.IsNotExist(err)
	})
	// The kernel would have killed it before the thread was gone.
	testkit.Await(t, "the process goes on", func() bool { return isSleeping(sleep.Process.Pid) })
}

// onThreadThatEnds starts a function on a thread that ends when the function returns.
func onThreadThatEnds(f func()) {
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() { // the first thread of a process does not end
			defer runtime.UnlockOSThread()
			done := make(chan struct{})
			onThreadThatEnds(func() { defer close(done); f() })
			<-done
			return
		}
		f() // never unlocked: the thread ends, too
	}()
}

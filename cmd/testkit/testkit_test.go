package testkit_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"understudy/cmd/testkit"
)

// The variable role makes this test binary one of the programs of TestAKilledTestBinaryLeavesNothing.
const role = "TESTKIT_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "starter": // starts one program directly and one through Exec, and prints their process IDs
		direct := exec.Command("sleep", "600")
		through := exec.Command(os.Args[0])
		through.Env = append(os.Environ(), role+"=script")
		for _, cmd := range []*exec.Cmd{direct, through} {
			start := cmd.Start
			if cmd == direct {
				start = func() error { return testkit.Start(cmd) }
			}
			if err := start(); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
		fmt.Println("started", direct.Process.Pid, through.Process.Pid)
		time.Sleep(testkit.Patience)
	case "script":
		sleep, err := exec.LookPath("sleep")
		if err == nil {
			err = testkit.Exec(sleep, []string{"sleep", "600"}, os.Environ())
		}
		fmt.Println(err)
		os.Exit(1)
	}
}

// TestAKilledTestBinaryLeavesNothing kills a test binary that has started programs. They end.
func TestAKilledTestBinaryLeavesNothing(t *testing.T) {
	starter := exec.Command(os.Args[0])
	starter.Env = append(os.Environ(), role+"=starter")
	var started []int
	for _, field := range strings.Fields(testkit.StartUntil(t, starter, "started ")) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		started = append(started, pid)
	}
	testkit.Await(t, "both programs are sleeping", func() bool {
		return len(started) == 2 && isSleeping(started[0]) && isSleeping(started[1])
	})
	testkit.Kill(starter)
	for _, pid := range started {
		testkit.Await(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !isSleeping(pid) })
	}
}

// isSleeping reports whether a process runs the program sleep.
func isSleeping(pid int) bool {
	name, err := exec.Command("ps", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.TrimSpace(string(name)) == "sleep" && testkit.Running(pid)
}

// failing is a test that notes how it failed.
type failing struct{ how string }

func (f *failing) Fatalf(format string, args ...any) { f.how = fmt.Sprintf(format, args...) }

func TestAwaitSaysWhatItWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, looks, f := time.Now(), 0, &failing{}
		testkit.Await(f, "the kettle boils", func() bool { looks++; return false }, func() any { return "40 °C" })
		if want := "waited 3m0s for: the kettle boils; now: 40 °C"; f.how != want {
			t.Errorf("it says %q, want %q", f.how, want)
		}
		if took := time.Since(begin); took < testkit.Patience || took > testkit.Patience+time.Second {
			t.Errorf("it waited %s, want %s", took, testkit.Patience)
		}
		if looks > 250 {
			t.Errorf("it looked %d times: that takes the processor from the others", looks)
		}
	})
}

func TestReceiveSaysWhatItWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{}
		testkit.Receive(f, "a record", make(chan int))
		if want := "waited 3m0s for: a record"; f.how != want {
			t.Errorf("it says %q, want %q", f.how, want)
		}
		closed := make(chan int)
		close(closed)
		testkit.Receive(f, "a record", closed)
		if want := "waited for: a record; the channel is closed"; f.how != want {
			t.Errorf("it says %q, want %q", f.how, want)
		}
	})
}

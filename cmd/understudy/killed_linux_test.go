package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"understudy/admin/storetest"
	"understudy/cmd/testkit"
)

// toBeKilled makes a test binary the one that TestAKilledTestBinaryLeavesNoProcess kills.
const toBeKilled = "TEST_TO_BE_KILLED"

// startedPrefix begins the line with the IDs of the processes that the test binary has started.
const startedPrefix = "started "

// TestAKilledTestBinaryLeavesNoProcess runs a second test binary that starts a server, which has a
// rehearsal process, and a redis-server. It kills the test binary, and all of them end.
func TestAKilledTestBinaryLeavesNoProcess(t *testing.T) {
	if os.Getenv(toBeKilled) != "" {
		waitToBeKilled(t)
		return
	}
	binary := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	binary.Env = append(os.Environ(), toBeKilled+"=1", "TMPDIR="+t.TempDir()) // it cleans nothing up
	var started []int
	for _, field := range strings.Fields(testkit.StartUntil(t, binary, startedPrefix)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		started = append(started, pid)
	}
	testkit.Kill(binary)
	if len(started) != 3 {
		t.Fatalf("it has started %v, want three processes", started)
	}
	for i, what := range []string{"the server", "its rehearsal process", "redis-server"} {
		testkit.Await(t, what+" ends", func() bool { return !testkit.Running(started[i]) })
	}
}

// waitToBeKilled starts processes, prints their IDs, and waits.
func waitToBeKilled(t *testing.T) {
	p := startProcess(t, "--location", location, "--policy", "shop")
	p.preview(t)
	var rehearsing []int
	testkit.Await(t, "there is a rehearsal process", func() bool {
		rehearsing = childrenOf(t, p.process.Pid)
		return len(rehearsing) == 1
	})
	redis := storetest.StartRedis(t).Process().Pid
	for _, pid := range []int{p.process.Pid, rehearsing[0], redis} {
		if !testkit.Running(pid) {
			t.Fatalf("process %d has ended already", pid)
		}
	}
	fmt.Println(startedPrefix, p.process.Pid, rehearsing[0], redis)
	time.Sleep(testkit.Patience)
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"understudy/cmd/testkit"
)

// runsSession makes TestASessionIsKilled the test binary that is killed.
const runsSession = "UNDERSTUDY_DOCS_RUN_SESSION"

// TestASessionIsKilled kills a test binary in the middle of a session. Its shell ends, and with it
// the command that it runs, and what it has started in the background.
func TestASessionIsKilled(t *testing.T) {
	if os.Getenv(runsSession) != "" {
		s := newSession(t, t.TempDir())
		fmt.Println("group", s.mustRun("sleep 600 & sleep 600 & echo $$")[0])
		s.mustRun("sleep 600")
		return
	}
	t.Parallel()
	binary := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	binary.Env = append(os.Environ(), runsSession+"=yes")
	group := testkit.StartUntil(t, binary, "group ")
	testkit.Await(t, "the shell has one process in the foreground, and two in the background", func() bool {
		return strings.Count(strings.Join(running(t, group), " "), "sleep") == 3
	}, func() any { return running(t, group) })
	testkit.Kill(binary)
	testkit.Await(t, "all processes of the shell have ended", func() bool { return len(running(t, group)) == 0 },
		func() any { return running(t, group) })
}

// running returns the names of the processes of a group. One that has ended, and whose exit code
// nothing has read, is not among them.
func running(t *testing.T, group string) (names []string) {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "pgid=,stat=,comm=").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[0] == group && !strings.HasPrefix(fields[1], "Z") {
			names = append(names, fields[2])
		}
	}
	return names
}

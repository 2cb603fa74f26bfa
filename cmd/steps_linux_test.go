package cmd_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"understudy/cmd/testkit"
)

// ownGroup leaves a process in a process group of its own.
const ownGroup = `set -m; sleep 600 & echo $! >"$pid"`

// TestStepLeavesNoProcess runs steps as .ci/run does. Each step leaves a process behind, in a
// process group or a session of its own, and each of these processes is gone when the step has
// ended, or the run was killed.
func TestStepLeavesNoProcess(t *testing.T) {
	for name, c := range map[string]struct {
		// leaves starts a process that writes its ID to the file pid, and step is what the step does then.
		leaves, step string
		code         int
		want         []string
	}{
		"another session":                    {`setsid sh -c 'echo $$ >"$0"; exec sleep 600' "$pid" &`, `until [ -s "$pid" ]; do sleep 0.1; done`, 0, []string{"sleep 600", "passed"}},
		"another session, no parent":         {`(setsid sh -c 'echo $$ >"$0"; exec sleep 600' "$pid" &)`, `until [ -s "$pid" ]; do sleep 0.1; done`, 0, []string{"sleep 600", "passed"}},
		"a run that is killed":               {ownGroup, `kill -KILL $PPID; sleep 600`, -1, nil},
		"a step that calls another function": {ownGroup, `marked CI_RUN=of-no-run`, 0, []string{"passed"}},
		"a step that passes":                 {ownGroup, `true`, 0, []string{"=== a step", "passed", "ended, because the step left them behind", "=== total"}},
		"a step that fails":                  {ownGroup, `exit 3`, 3, []string{"=== a step", "FAILED (exit 3)", "1 FAILED"}},
		"a step that is slow": {ownGroup, `sleep 2`, 0, []string{
			"=== a step", "passed, slower than its 1 s", "warning: slower than its budget of 1 s",
		}},
		"a run that is ended": {ownGroup, `kill -TERM $PPID; sleep 600`, 130, []string{"INTERRUPTED during: a step"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := filepath.Join(t.TempDir(), "pid")
			script := `source .ci/steps
trap 'end_session; summary 1' EXIT
leaves() { local pid='` + pid + `'; ` + c.leaves + `
` + c.step + `; }
step 1 "a step" leaves`
			cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
			cmd.Dir = ".."
			out, err := testkit.CombinedOutput(cmd)
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() != c.code {
				t.Errorf("it ended with %v, want exit code %d:\n%s", err, c.code, out)
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("it does not print %q:\n%s", want, out)
				}
			}
			content, err := os.ReadFile(pid)
			if err != nil {
				t.Fatalf("%v; it printed:\n%s", err, out)
			}
			left, err := strconv.Atoi(strings.TrimSpace(string(content)))
			if err != nil {
				t.Fatal(err)
			}
			testkit.Await(t, "the process that the step started is gone", func() bool { return !testkit.Running(left) })
		})
	}
}

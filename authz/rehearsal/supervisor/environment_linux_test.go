package supervisor_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"understudy/authz/rehearsal/supervisor"
)

// TestTheEnvironmentStaysHere starts a child while none of the variables that it may have is
// set, and then with one of them.
func TestTheEnvironmentStaysHere(t *testing.T) {
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value) // which restores it
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("REDIS_PASSWORD", "secret")
	for _, want := range []string{"", "TZ=UTC\x00"} {
		if want != "" {
			t.Setenv("TZ", "UTC")
		}
		s, kids, _ := start(t)
		ready(t, s.NewCandidate(policy(`input.x == "yes"`), supervisor.Options{Name: "a", Keeps: true}))
		got, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", kids.last().PID()))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("the environment of the child is %q, want %q", got, want)
		}
	}
}

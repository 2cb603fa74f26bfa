package supervisor_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"understudy/authz/rehearsal/process"
	"understudy/authz/rehearsal/supervisor"
)

// TestTheEnvironmentStaysHere starts a child while none of the variables that it may have is
// set, and then with each of some. What says how it collects garbage is always set.
func TestTheEnvironmentStaysHere(t *testing.T) {
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value) // which restores it
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ name, value, want string }{
		{"REDIS_PASSWORD", "secret", process.Collector + "\x00"},
		{"GODEBUG", "gctrace=0", process.Collector + ",gctrace=0\x00"},
		{"TZ", "UTC", process.Collector + ",gctrace=0\x00TZ=UTC\x00"},
	} {
		t.Setenv(tt.name, tt.value)
		s, kids, _ := start(t)
		ready(t, s.NewRemotePolicy(policy(`input.x == "yes"`), supervisor.Options{Name: "a", Keeps: true}))
		got, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", kids.last().PID()))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != tt.want {
			t.Errorf("the environment of the child is %q, want %q", got, tt.want)
		}
	}
}

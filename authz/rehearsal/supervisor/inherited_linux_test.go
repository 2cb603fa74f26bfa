package supervisor_test

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// TestNothingIsInherited looks at a process that is at work: of the environment it has what
// time and place depend on, and of our files none.
func TestNothingIsInherited(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "secret")
	inherited, err := syscall.Dup(1) // as a shell leaves it: not to be closed
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(inherited) }()
	s, kids, _ := start(t)
	if err := s.Compile(t.Context(), policy(`true`)); err != nil {
		t.Fatal(err)
	}
	of := "/proc/" + strconv.Itoa(kids.last().PID())
	if environment, err := os.ReadFile(of + "/environ"); err != nil || bytes.Contains(environment, []byte("secret")) {
		t.Errorf("its environment is %q, %v", environment, err)
	}
	ours, err := os.Readlink("/proc/self/fd/1")
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(of + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if link, err := os.Readlink(of + "/fd/" + f.Name()); err == nil && link == ours && link != "/dev/null" {
			t.Errorf("its file %s is our standard output, %s", f.Name(), link)
		}
	}
}

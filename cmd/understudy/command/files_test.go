package command

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"understudy/cmd/testkit"
)

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestInputIsBounded: a file, a pipe or standard input without an end is refused, by its
// name.
func TestInputIsBounded(t *testing.T) {
	for name, want := range map[string]string{"-": "standard input has more than 1 MiB", "/dev/zero": "/dev/zero has more than 1 MiB"} {
		if _, err := readUpTo(name, zeros{}, 1<<20); err == nil || err.Error() != want {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	full := filepath.Join(t.TempDir(), "full")
	if err := os.WriteFile(full, bytes.Repeat([]byte("x"), 1<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if content, err := readUpTo(full, nil, 1<<10); err != nil || len(content) != 1<<10 {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write.WriteString("piped"); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	defer func() { _ = read.Close() }()
	if content, err := readUpTo("-", read, 1<<10); err != nil || string(content) != "piped" {
		t.Errorf("a pipe: %q, %v", content, err)
	}
	// As the shell names the output of another command: -f <(kustomize build).
	named := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(named, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(named, []byte("piped"), 0o600) }()
	if content, err := readUpTo(named, nil, 1<<10); err != nil || string(content) != "piped" {
		t.Errorf("a named pipe: %q, %v", content, err)
	}
	if err := testkit.Receive(t, "the pipe to be read", written); err != nil {
		t.Error(err)
	}
}

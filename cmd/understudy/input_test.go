package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	keep(t, full, strings.Repeat("x", 1<<10))
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
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// TestSmallFilesAreBounded: the flags that name a key or a configuration.
func TestSmallFilesAreBounded(t *testing.T) {
	if _, err := (&sourceFlags{verificationKey: "/dev/zero"}).options(); err == nil || !strings.Contains(err.Error(), "--verification-key: /dev/zero has more than 1 MiB") {
		t.Errorf("--verification-key: %v", err)
	}
	if _, err := readPluginConfig("/dev/zero"); err == nil || !strings.Contains(err.Error(), "/dev/zero has more than 1 MiB") {
		t.Errorf("--opa-config: %v", err)
	}
	if _, err := (transport{caCert: "/dev/zero"}).config(); err == nil || !strings.Contains(err.Error(), "--ca-cert: /dev/zero has more than 1 MiB") {
		t.Errorf("--ca-cert: %v", err)
	}
}

// TestTooLargeToSend: what gRPC refuses by itself names the limit on policies.
func TestTooLargeToSend(t *testing.T) {
	c := &client{addr: "127.0.0.1:1"}
	err := c.unanswered(status.Error(codes.ResourceExhausted, "trying to send message larger than max (70000000 vs. 68157440)"))
	if err == nil || !strings.Contains(err.Error(), "--max-policy-size") || errors.Unwrap(err) != nil {
		t.Errorf("%v", err)
	}
}

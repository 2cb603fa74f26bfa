package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/authz/diagnostics/logtest"
	"understudy/cmd/testkit"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/storage"
)

// started is the binary in a process of its own.
type started struct {
	*running
	process *os.Process
	// log is what it has written to standard error since its ports were open.
	log *logtest.Buffer
	// wait waits until the process has ended, and its log is complete. It returns the error
	// of exec.Cmd.Wait.
	wait func() error
}

// startProcess runs a server in a process of its own until the test ends.
func startProcess(t *testing.T, flags ...string) *started {
	t.Helper()
	return startProcessWith(t, nil, flags...)
}

// startProcessWith is startProcess with more variables in the environment.
func startProcessWith(t *testing.T, variables []string, flags ...string) *started {
	t.Helper()
	cmd := program(append([]string{
		"serve", "--authz-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--health-addr", "127.0.0.1:0",
		"--store", storage.BoltScheme + filepath.Join(t.TempDir(), "understudy.db"),
		// A busy machine is no slow policy.
		"--decision-timeout", testkit.Patience.String(), "--preview-timeout", testkit.Patience.String(),
		"--shutdown-timeout", testkit.Patience.String(),
	}, flags...)...)
	cmd.Env = append(cmd.Env, variables...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := testkit.Start(cmd); err != nil {
		t.Fatal(err)
	}
	p := &started{running: &running{bound: make(map[string]string)}, process: cmd.Process, log: &logtest.Buffer{}}
	p.readAddresses(stderr)
	read := make(chan struct{})
	go func() { _, _ = io.Copy(p.log, stderr); close(read) }()
	p.wait = sync.OnceValue(func() error {
		testkit.Closed(t, "the output of the process to end", read)
		return cmd.Wait()
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = p.wait()
	})
	if p.conn, err = (cli.Transport{}).Dial(p.bound["authz"]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.conn.Close() })
	p.authz = authv3.NewAuthorizationClient(p.conn)
	return p
}

// address matches the address of a port in a log.
var address = regexp.MustCompile(`\b(authz|admin|health)=(\S+)`)

// readAddresses reads a log until it has named the three ports.
func (p *started) readAddresses(log io.Reader) {
	lines := bufio.NewScanner(log)
	for len(p.bound) < 3 && lines.Scan() {
		for _, m := range address.FindAllStringSubmatch(lines.Text(), -1) {
			p.bound[m[1]] = m[2]
		}
	}
}

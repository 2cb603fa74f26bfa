package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"understudy/authz/rehearsal/child"
	"understudy/authz/rehearsal/process"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/cmd/understudy/command"
)

// asProgram makes this test binary behave as the binary of the product.
const asProgram = "TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	rehearsalOverhead = supervisortest.Overhead()
	switch {
	case len(os.Args) > 1 && os.Args[1] == process.Argument:
		os.Exit(child.Main(version)) // a server in this process has started it
	case os.Getenv(asProgram) != "":
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// program returns a command of the product, for a process of its own. More variables of its
// environment are added to Env.
func program(arguments ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], arguments...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "NO_COLOR=1")
	return cmd
}

// TestEveryFlagHasItsVariable holds the help to what it promises.
func TestEveryFlagHasItsVariable(t *testing.T) {
	t.Setenv("UNDERSTUDY_POLICY", "from-the-environment")
	t.Setenv("UNDERSTUDY_LOG_FORMAT", "json")
	cmd := newServe()
	if err := cmd.ParseFlags([]string{"--log-format", "text"}); err != nil {
		t.Fatal(err)
	}
	if err := command.FromEnvironment(cmd.Flags()); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{"policy": "from-the-environment", "log-format": "text"} {
		if got := fmt.Sprint(cmd.Flags().Lookup(flag).Value); got != want {
			t.Errorf("--%s is %s, want %s", flag, got, want)
		}
	}
}

//go:build realenvoy

// Package e2e_test runs the shipped Envoy files with a real Envoy and a real
// Understudy, each a process of its own. `make test-envoy` runs it: it needs an Envoy,
// so it is behind a build tag.
package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"understudy/cmd/testkit"
)

// The programs under test.
var envoyProgram, understudyProgram string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	envoyProgram = os.Getenv("ENVOY")
	if envoyProgram == "" {
		fmt.Fprintln(os.Stderr, "ENVOY names no Envoy; `make test-envoy` finds one, or says how to get one")
		return 1
	}
	if understudyProgram = os.Getenv("UNDERSTUDY"); understudyProgram != "" { // it was built already
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "understudy-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	understudyProgram = filepath.Join(dir, "understudy")
	build := exec.Command("go", "build", "-o", understudyProgram, "../../cmd/understudy")
	if out, err := testkit.CombinedOutput(build); err != nil {
		fmt.Fprintf(os.Stderr, "building understudy: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

//go:build wholebuild && linux

package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// TestEveryModuleBuildsUnderAnotherPath does to a copy what make module does, and builds and
// vets all modules. It compiles all of our code anew, so it is for the night.
func TestEveryModuleBuildsUnderAnotherPath(t *testing.T) {
	folder := copyRepository(t)
	do(t, folder, "make", "module", "MODULE="+home)
	generated, err := os.ReadFile(filepath.Join(folder, "admin/v1/admin.pb.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(generated, []byte(home+"/admin/v1;adminpb")) {
		t.Error("the descriptor of the API names another Go package")
	}
	err = fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "go.mod" {
			module := filepath.Join(folder, filepath.Dir(name))
			if holdsCode(t, module) {
				do(t, module, "go", "mod", "tidy", "-diff")
				do(t, module, "go", "build", "./...")
				do(t, module, "go", "vet", "./...")
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	do(t, folder, "go", "vet", "-tags=realenvoy,realproxies", "./envoy/e2e", "./deploy/forward-auth")
	do(t, folder, "go", "test", "-timeout=15m", "./cmd")
	do(t, folder, "go", "test", "-timeout=15m", "-run=^TestPackageIsFolder$", "./admin")
}

// holdsCode reports whether a module has packages: those of tools have none.
func holdsCode(t *testing.T, module string) bool {
	t.Helper()
	return !bytes.Contains(do(t, module, "go", "list", "./..."), []byte("matched no packages"))
}

// do runs a command in a folder, and returns what it says.
func do(t *testing.T, folder, name string, args ...string) []byte {
	t.Helper()
	command := exec.Command(name, args...)
	command.Dir = folder
	// The command ends with this process. The signal is about the thread that starts it.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s in %s: %v\n%s", command, folder, err, out)
	}
	return out
}

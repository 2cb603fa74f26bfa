package process_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sys/unix"

	"understudy/authz/rehearsal/process"
	"understudy/cmd/testkit"
)

// TestMain is the process that is started as well: it is not confined, and tries what it may do to
// its parent.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == process.Argument {
		os.Exit(answer())
	}
	os.Exit(m.Run())
}

// nobody is a user who is not root, and owns nothing.
const nobody = 65534

// asNobody runs the test once more as a user without privileges, if this is root.
func asNobody(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	t.Run("as nobody", func(t *testing.T) {
		// The path of this binary may be one that only root can go.
		again := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+strings.SplitN(t.Name(), "/", 2)[0]+"$", "-test.v")
		again.Dir = "/"
		again.Env = []string{"SECRET=" + secret}
		again.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if out, err := testkit.CombinedOutput(again); err != nil || !strings.Contains(string(out), "PASS") {
			t.Errorf("%v, it says:\n%s", err, out)
		}
	})
}

// secret is in the memory of the parent.
const secret = "the secret of the parent"

// try is what the process is asked to try with its parent, and how that ended; empty if it worked.
type try struct {
	What, Error string
}

// tries are all of it: reading it, and attaching to it.
var tries = []string{"mem", "environ", "maps", "auxv", "fd/0", "root", "exe", "ptrace", "process_vm_readv", "pidfd_getfd"}

// TestTheParentCannotBeRead has the process try to read its parent, without a sandbox: as root,
// it has no capabilities to do so, and as another user it has none anyway.
func TestTheParentCannotBeRead(t *testing.T) {
	got := ask(t, append([]string{"stat"}, tries...))
	if got[0].Error != "" {
		t.Errorf("what everybody may read of a process: %s; want no error, or the others show nothing", got[0].Error)
	}
	for _, g := range got[1:] {
		if g.Error == "" {
			t.Errorf("%s of the parent: it worked", g.What)
		}
	}
	asNobody(t)
}

// TestNoPrivileges looks at the process from outside. Its parent keeps what it has.
func TestNoPrivileges(t *testing.T) {
	ours := status(t, os.Getpid())
	p := begin(t)
	theirs := status(t, p.PID())
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		if theirs[set] != "0000000000000000" {
			t.Errorf("%s is %s, want none", set, theirs[set])
		}
	}
	if theirs["NoNewPrivs"] != "1" {
		t.Errorf("NoNewPrivs is %s, want 1", theirs["NoNewPrivs"])
	}
	now := status(t, os.Getpid())
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs"} {
		if now[set] != ours[set] {
			t.Errorf("%s of the parent was %s and is %s", set, ours[set], now[set])
		}
	}
	asNobody(t)
}

// TestTheParentKnowsItself has the metrics of a process that has started one: they are read from
// /proc/self, which belongs to root then.
func TestTheParentKnowsItself(t *testing.T) {
	begin(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{ReportErrors: true}))
	metrics, err := registry.Gather()
	if err != nil {
		t.Error(err)
	}
	found := make(map[string]bool)
	for _, m := range metrics {
		found[m.GetName()] = true
	}
	for _, name := range []string{"process_open_fds", "process_max_fds", "process_resident_memory_bytes", "process_cpu_seconds_total", "process_start_time_seconds"} {
		if !found[name] {
			t.Errorf("there is no metric %s", name)
		}
	}
	asNobody(t)
}

// begin starts a process that ends with the test.
func begin(t *testing.T) *process.Process {
	t.Helper()
	p, err := process.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		_ = p.Close()
		p.Wait()
	})
	return p
}

// ask has a process try things.
func ask(t *testing.T, what []string) (answers []try) {
	t.Helper()
	p := begin(t)
	if err := json.NewEncoder(p).Encode(what); err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(p).Decode(&answers); err != nil {
		t.Fatal(err)
	}
	return answers
}

// status is /proc/PID/status of a process: field → value.
func status(t *testing.T, pid int) map[string]string {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	out := make(map[string]string)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		out[name] = strings.TrimSpace(value)
	}
	return out
}

// answer is the process: it tries what it is asked for, and returns its exit code.
func answer() int {
	stream, err := net.FileConn(os.NewFile(3, "parent"))
	if err != nil {
		return 1
	}
	var what []string
	if json.NewDecoder(stream).Decode(&what) != nil {
		return 1
	}
	var out []try
	for _, w := range what {
		t := try{What: w}
		if err := attempt(w, os.Getppid()); err != nil {
			t.Error = err.Error()
		}
		out = append(out, t)
	}
	if json.NewEncoder(stream).Encode(out) != nil {
		return 1
	}
	_, _ = stream.Read(make([]byte, 1)) // until the parent ends it
	return 0
}

// attempt tries one thing with a process.
func attempt(what string, pid int) error {
	of := "/proc/" + strconv.Itoa(pid)
	switch what {
	case "root", "exe", "fd/0":
		_, err := os.Readlink(filepath.Join(of, what))
		return err
	case "ptrace":
		return errno(unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0))
	case "process_vm_readv":
		// No memory is asked for: the rights are looked at before.
		var here [1]byte
		local := []unix.Iovec{{Base: &here[0], Len: 1}}
		remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&here[0])), Len: 1}}
		_, err := unix.ProcessVMReadv(pid, local, remote, 0)
		if errors.Is(err, unix.EFAULT) {
			return nil // it may, and there is nothing at this address
		}
		return err
	case "pidfd_getfd":
		handle, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		_, err = unix.PidfdGetfd(handle, 0, 0)
		return err
	}
	f, err := os.Open(filepath.Join(of, what))
	if err != nil {
		return err
	}
	if what == "mem" {
		return nil // it can be read where the process has memory
	}
	_, err = f.Read(make([]byte, 1))
	return err
}

func errno(_, _ uintptr, e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

// Enter confines the process, with all of its threads, for good. After an error the process is
// confined in part or not at all, and can go on as before.
//
// All files that the process needs have to be open by then, and GOMAXPROCS set: Go cannot see any
// more how many processors there are. Enter is called once: what it does is forbidden afterwards.
func Enter() error {
	// Go's runtime opens what it waits with when there is a timer for the first time.
	time.AfterFunc(time.Hour, func() {}).Stop()
	// What is set for one thread has to be set before the filters bring it to all.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := seccomp.SetNoNewPrivs(); err != nil {
		return fmt.Errorf("setting no_new_privs: %w", err)
	}
	for _, policy := range policies(os.Getpid()) {
		if err := seccomp.LoadFilter(seccomp.Filter{Flag: seccomp.FilterFlagTSync, Policy: policy}); err != nil {
			return fmt.Errorf("loading a seccomp filter: %w", err)
		}
	}
	return verify()
}

// policies are the filters of the process of this number, in the order in which they are loaded.
// The kernel asks all of them, and does what the strictest says.
//
// Each call whose arguments matter has a filter of its own: where a condition does not hold,
// go-seccomp-bpf 1.6.0 compares the numbers of the calls that follow in the same filter with the
// argument in place of the number. So it would allow mmap with the protection 15, which can be
// executed, because 15 is the number of rt_sigreturn. The last filter does not allow to load one.
func policies(pid int) []seccomp.Policy {
	var out []seccomp.Policy
	conditions := refused(pid)
	for i, c := range conditions {
		condition := seccomp.NameWithConditions{
			Name:       c.call,
			Conditions: seccomp.ArgumentConditions{{Argument: c.number, Operation: c.operation, Value: c.value}},
		}
		if i > 0 && conditions[i-1].call == c.call {
			group := &out[len(out)-1].Syscalls[0]
			group.NamesWithCondtions = append(group.NamesWithCondtions, condition)
			continue
		}
		out = append(out, seccomp.Policy{
			DefaultAction: seccomp.ActionAllow,
			Syscalls:      []seccomp.SyscallGroup{{NamesWithCondtions: []seccomp.NameWithConditions{condition}, Action: seccomp.ActionErrno}},
		})
	}
	return append(out, seccomp.Policy{
		DefaultAction: seccomp.ActionErrno,
		Syscalls: []seccomp.SyscallGroup{
			{Names: []string{absent}, Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
			{Names: allowed, Action: seccomp.ActionAllow},
		},
	})
}

var errNotConfined = errors.New("the seccomp filters were loaded without an error, and have no effect")

// verify makes a harmless call that is forbidden. go-seccomp-bpf takes it for success when the
// kernel names a thread that could not be confined: then no thread is.
func verify() error {
	if _, _, err := unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); err != unix.EPERM {
		return errNotConfined
	}
	return nil
}

//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"understudy/cmd/testkit"
)

// TestEachCallExists looks the names up for both processors, whichever this one is: with an
// unknown one nothing would be confined.
func TestEachCallExists(t *testing.T) {
	names := append(slices.Clone(allowed), absent)
	for _, a := range refused(1) {
		names = append(names, a.call)
	}
	for _, processor := range []*arch.Info{arch.X86_64, arch.AARCH64} {
		for _, name := range names {
			if _, found := processor.SyscallNames[name]; !found {
				t.Errorf("%s has no call %s", processor.Name, name)
			}
		}
	}
}

// TestTheFiltersAreTheList runs the filters in a machine of their own on each call with many
// arguments, and compares what they say with what mayCall says. Arguments are numbers of calls
// among others: those must not be taken for calls.
func TestTheFiltersAreTheList(t *testing.T) {
	const pid = 4242
	loaded := machines(t, pid)
	host, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	values := []uint64{0, 1, 2, 3, 4, 5, 6, 7, unix.MAP_ANONYMOUS, unix.MAP_ANONYMOUS | unix.MAP_PRIVATE, unix.CLONE_THREAD, unix.CLONE_THREAD | unix.CLONE_NEWUSER,
		unix.CLONE_THREAD | unix.CLONE_NEWNS, pid, pid | 1<<32, unix.PR_SET_VMA, unix.PR_SET_VMA | 1<<40, 1 << 63, ^uint64(0)}
	for number := range 512 {
		values = append(values, uint64(number))
	}
	for number := range 1024 {
		name := host.SyscallNumbers[number]
		for range testkit.RaceCases(512) {
			var arguments [6]uint64
			for i := range arguments {
				arguments[i] = values[random.IntN(len(values))]
			}
			if got, want := effect(t, loaded, uint32(host.ID), uint32(number), arguments), mayCall(pid, name, arguments); got != want {
				t.Fatalf("%s (%d) with %#x: got the error %v, want %v", name, number, arguments, got, want)
			}
		}
	}
}

// TestOtherTablesAreRefused makes calls as a program for another processor does, and for x32.
func TestOtherTablesAreRefused(t *testing.T) {
	loaded := machines(t, 1)
	host, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	for number := range uint32(512) {
		if effect(t, loaded, uint32(arch.I386.ID), number, [6]uint64{}) == 0 {
			t.Errorf("call %d of a 32-bit program is allowed", number)
		}
		if x32 := number | uint32(arch.X32.SeccompMask); effect(t, loaded, uint32(host.ID), x32, [6]uint64{}) == 0 {
			t.Errorf("call %#x of x32 is allowed", x32)
		}
	}
}

// mayCall says by its own words with which error a call fails; 0 if it is allowed.
func mayCall(pid uint64, name string, arguments [6]uint64) unix.Errno {
	ok := false
	switch name {
	case "clone3":
		return unix.ENOSYS
	case "mmap":
		ok = arguments[2]&unix.PROT_EXEC == 0 && arguments[3]&unix.MAP_ANONYMOUS != 0
	case "mprotect":
		ok = arguments[2]&unix.PROT_EXEC == 0
	case "clone":
		ok = arguments[0]&unix.CLONE_THREAD != 0 && arguments[0]&newNamespaces == 0
	case "tgkill":
		ok = arguments[0] == pid
	case "prctl":
		ok = arguments[0] == unix.PR_SET_VMA
	case "":
	default:
		ok = slices.Contains(allowed, name)
	}
	if ok {
		return 0
	}
	return unix.EPERM
}

// machines run the filters of the process of a number.
func machines(t *testing.T, pid int) []*bpf.VM {
	t.Helper()
	var out []*bpf.VM
	for _, p := range policies(pid) {
		instructions, err := p.Assemble()
		if err != nil {
			t.Fatal(err)
		}
		vm, err := bpf.NewVM(instructions)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, vm)
	}
	return out
}

// effect is the error with which the strictest filter has a call fail; 0 if all allow it. A
// machine reads words as the network has them, and the order of both halves of an argument is
// that of a processor which begins with the lower one.
func effect(t *testing.T, filters []*bpf.VM, processor, number uint32, arguments [6]uint64) unix.Errno {
	t.Helper()
	data := binary.BigEndian.AppendUint32(nil, number)
	data = binary.BigEndian.AppendUint32(data, processor)
	data = binary.BigEndian.AppendUint64(data, 0) // the instruction pointer
	for _, a := range arguments {
		data = binary.BigEndian.AppendUint32(data, uint32(a))
		data = binary.BigEndian.AppendUint32(data, uint32(a>>32))
	}
	strictest := uint32(unix.SECCOMP_RET_ALLOW)
	for _, f := range filters {
		got, err := f.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		// Of two filters, the action with the lower number goes first.
		if uint32(got)&unix.SECCOMP_RET_ACTION < strictest&unix.SECCOMP_RET_ACTION {
			strictest = uint32(got)
		}
	}
	if strictest == unix.SECCOMP_RET_ALLOW {
		return 0
	}
	if strictest&unix.SECCOMP_RET_ACTION != unix.SECCOMP_RET_ERRNO {
		t.Fatalf("call %d: the action is %#x, want an error", number, strictest)
	}
	return unix.Errno(strictest & unix.SECCOMP_RET_DATA)
}

// TestMain is a confined program as well: tests start this binary again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == confined {
		os.Exit(runConfined())
	}
	os.Exit(m.Run())
}

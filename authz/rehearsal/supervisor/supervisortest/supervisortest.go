// Package supervisortest has rehearsal processes for the tests of other packages, which are
// none: the child runs within the process of the test, and nothing bounds it.
package supervisortest

import (
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"understudy/authz/rehearsal/child"
	"understudy/authz/rehearsal/supervisor"
)

// Start starts a child within this process. It fits [supervisor.Config.Start].
func Start() (supervisor.Child, error) { return StartWith(child.Options{})() }

// StartWith is Start of children with these options.
func StartWith(options child.Options) func() (supervisor.Child, error) {
	return func() (supervisor.Child, error) {
		ours, theirs := net.Pipe()
		p := &within{Conn: ours, ended: make(chan struct{})}
		go func() {
			defer close(p.ended)
			p.err = child.Serve(theirs, options)
		}()
		return p, nil
	}
}

// New returns a Supervisor with such children, which ends with the test. Its bounds are out
// of reach: a child within the process would hold the memory and the processor time of all
// tests of that process against what it happens to do.
func New(t testing.TB) *supervisor.Supervisor {
	t.Helper()
	return Reading(t, nil, 0)
}

// Reading is New of children that read the bodies of gRPC requests by a descriptor set, which
// may be nil, with so much memory for bodies, as a [supervisor.Config] has it.
func Reading(t testing.TB, set *descriptorpb.FileDescriptorSet, bodyMemory int64) *supervisor.Supervisor {
	t.Helper()
	descriptors, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	s, err := supervisor.New(supervisor.Config{
		Start: Start, Memory: 1 << 40, CompileTime: time.Hour, StuckTime: time.Hour, Descriptors: descriptors, BodyMemory: bodyMemory, Gathering: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Overhead is that of a [supervisor.Config] whose processes are this binary: the race detector has them take
// eight times as much.
func Overhead() int {
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 8
	}
	return 1
}

// within is a child within the process.
type within struct {
	net.Conn
	once  sync.Once
	ended chan struct{}
	err   error
}

func (w *within) Kill() { w.once.Do(func() { _ = w.Close() }) }

func (w *within) Wait() string {
	<-w.ended
	if w.err != nil {
		return "exit status 1: " + w.err.Error()
	}
	return "exit status 0"
}

func (*within) Memory() (int64, bool) { return 0, false }

func (*within) ProcessorTime() (time.Duration, bool) { return 0, false }
func (*within) Stopped() bool                        { return false }

//go:build unix

package process

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
)

// start starts a command that inherits one end of a socket pair as its file 3, and returns
// the other.
func start(cmd *exec.Cmd) (io.ReadWriteCloser, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	defer func() { _ = ours.Close() }()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, fmt.Errorf("making the stream: %w", err)
	}
	cmd.ExtraFiles = []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func socketPair() (ours, theirs *os.File, err error) {
	// No process that is started at this moment inherits them.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}
	for _, fd := range pair {
		syscall.CloseOnExec(fd)
	}
	if err := syscall.SetNonblock(pair[0], true); err != nil {
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}
	return os.NewFile(uintptr(pair[0]), "rehearsal"), os.NewFile(uintptr(pair[1]), "parent"), nil
}

//go:build !unix

package process

import (
	"errors"
	"io"
	"os/exec"
)

// start starts a command whose standard input and output are the stream.
func start(cmd *exec.Cmd) (io.ReadWriteCloser, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return pipes{out, in}, cmd.Start()
}

// pipes are two pipes as one stream.
type pipes struct {
	io.ReadCloser
	in io.WriteCloser
}

func (p pipes) Write(b []byte) (int, error) { return p.in.Write(b) }
func (p pipes) Close() error                { return errors.Join(p.in.Close(), p.ReadCloser.Close()) }

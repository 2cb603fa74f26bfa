//go:build !unix

package child

import (
	"errors"
	"io"
	"os"
)

// inherited returns the stream to the parent: standard input and output.
func inherited() (io.ReadWriteCloser, error) { return pipes{}, nil }

// pipes are standard input and output as one stream.
type pipes struct{}

func (pipes) Read(b []byte) (int, error)  { return os.Stdin.Read(b) }
func (pipes) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (pipes) Close() error                { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }

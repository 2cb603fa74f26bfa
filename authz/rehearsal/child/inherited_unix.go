//go:build unix

package child

import (
	"fmt"
	"io"
	"net"
	"os"
)

// inheritedFile is the number of the file that the parent hands over.
const inheritedFile = 3

// inherited returns the stream to the parent.
func inherited() (io.ReadWriteCloser, error) {
	f := os.NewFile(inheritedFile, "parent")
	if f == nil {
		return nil, os.ErrInvalid
	}
	defer func() { _ = f.Close() }()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("taking over the stream: %w", err)
	}
	return conn, nil
}

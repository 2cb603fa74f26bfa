package port

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// UnixScheme begins the address of a socket.
const UnixScheme = "unix://"

// Listen opens a TCP port, or a socket for an address like unix:///path. A socket
// that nobody listens on any more is replaced; mode is who may connect to it.
func Listen(ctx context.Context, addr string, mode os.FileMode) (net.Listener, error) {
	var lc net.ListenConfig
	path, unix := strings.CutPrefix(addr, UnixScheme)
	if !unix {
		return lc.Listen(ctx, "tcp", addr)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// removeStale removes a socket that a process has left behind which did not end well. One
// that somebody listens on is an error, and so is anything else that has the name.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s is there and is no socket", path)
	}
	var d net.Dialer
	if conn, err := d.DialContext(ctx, "unix", path); err == nil {
		return errors.Join(fmt.Errorf("another process listens on %s", path), conn.Close())
	}
	return os.Remove(path)
}

// AddressOf is where a listener can be reached, in the form that flags have.
func AddressOf(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return UnixScheme + l.Addr().String()
	}
	return l.Addr().String()
}

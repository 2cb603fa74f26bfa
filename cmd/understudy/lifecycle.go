package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

const (
	unixScheme = "unix://"
	boltScheme = "bolt://"
)

// closers are what has to be ended with the process, by name.
type closers struct {
	// exports go first, all at once: one that hangs takes no time from the others.
	exports []closer
	// all are closed after them, the last opened first.
	all []closer
}

type closer struct {
	name  string
	close func(context.Context) error
}

func (c *closers) add(name string, close func(context.Context) error) {
	c.all = append(c.all, closer{name, close})
}

// addExport adds what exports telemetry, and at the end what it still has of it.
func (c *closers) addExport(name string, close func(context.Context) error) {
	c.exports = append(c.exports, closer{name, close})
}

// close closes everything, whatever fails, in the time of ctx. A collector that is away is
// no failure of this process: what it did not take is logged.
func (c *closers) close(ctx context.Context, logger *slog.Logger) error {
	var exports sync.WaitGroup
	for _, export := range c.exports {
		exports.Go(func() {
			if err := export.close(ctx); err != nil {
				logger.Warn("not all of this was exported before the end: the collector did not take it in the time of --shutdown-timeout",
					"what", export.name, "error", err)
			}
		})
	}
	exports.Wait()
	var errs []error
	for i := len(c.all) - 1; i >= 0; i-- {
		if err := c.all[i].close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("closing %s: %w", c.all[i].name, err))
		}
	}
	return errors.Join(errs...)
}

// group is goroutines with one owner: the first that fails stops all others.
type group struct {
	cancel context.CancelFunc
	wait   sync.WaitGroup
	once   sync.Once
	err    error
}

func newGroup(ctx context.Context) (*group, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	return &group{cancel: cancel}, ctx
}

func (g *group) run(name string, do func() error) {
	g.wait.Go(func() {
		if err := do(); err != nil {
			g.once.Do(func() { g.err = fmt.Errorf("%s: %w", name, err) })
			g.cancel()
		}
	})
}

// listen opens a TCP port, or a socket for an address like unix:///path. A socket
// that nobody listens on any more is replaced; mode is who may connect to it.
func listen(ctx context.Context, addr string, mode os.FileMode) (net.Listener, error) {
	var lc net.ListenConfig
	path, unix := strings.CutPrefix(addr, unixScheme)
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

// addressOf is where a listener can be reached, in the form that flags have.
func addressOf(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return unixScheme + l.Addr().String()
	}
	return l.Addr().String()
}

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// errLate is the error of what did not end in its time.
var errLate = errors.New("not ended in the time of --shutdown-timeout")

// Closers are what has to be closed with the process, by name.
type Closers struct {
	// exports go first, all at once: one that hangs takes no time from the others.
	exports []closer
	// all are closed after them, the last opened first.
	all []closer
}

// closer is one of them.
type closer struct {
	// name is for errors and log lines.
	name string
	// close gets a context that ends with its share of the time.
	close func(context.Context) error
}

// Add adds what others may still need while they end, such as a store.
func (c *Closers) Add(name string, close func(context.Context) error) {
	c.all = append(c.all, closer{name, close})
}

// AddExport adds what exports telemetry, and at the end what it still has of it.
func (c *Closers) AddExport(name string, close func(context.Context) error) {
	c.exports = append(c.exports, closer{name, close})
}

// Close closes everything, whatever fails, in the time of the ending. A collector that is
// away is no failure of this process: what it did not take is logged.
func (c *Closers) Close(ending *Shutdown, logger *slog.Logger) error {
	ctx, cancel := ending.exports()
	defer cancel()
	var exports sync.WaitGroup
	for _, export := range c.exports {
		exports.Go(func() {
			if err := export.closeWithin(ctx); err != nil {
				logger.Warn("not all of this was exported before the end: the collector did not take it in the time of --shutdown-timeout",
					"what", export.name, "error", err)
			}
		})
	}
	exports.Wait()
	ctx, cancel = ending.closing()
	defer cancel()
	var errs []error
	for i := len(c.all) - 1; i >= 0; i-- {
		if err := c.all[i].closeWithin(ctx); err != nil {
			errs = append(errs, fmt.Errorf("closing %s: %w", c.all[i].name, err))
		}
	}
	return errors.Join(errs...)
}

// closeWithin closes, and gives up when ctx is done: a store waits for its transactions,
// and an exporter for a pipe that nobody reads, whatever their context says.
func (c closer) closeWithin(ctx context.Context) error {
	closed := make(chan error, 1)
	go func() { closed <- c.close(ctx) }()
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return errLate
	}
}

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// Closers are what has to be ended with the process, by name.
type Closers struct {
	// exports go first, all at once: one that hangs takes no time from the others.
	exports []closer
	// all are closed after them, the last opened first.
	all []closer
}

type closer struct {
	name  string
	close func(context.Context) error
}

func (c *Closers) Add(name string, close func(context.Context) error) {
	c.all = append(c.all, closer{name, close})
}

// AddExport adds what exports telemetry, and at the end what it still has of it.
func (c *Closers) AddExport(name string, close func(context.Context) error) {
	c.exports = append(c.exports, closer{name, close})
}

// Close closes everything, whatever fails, in the time of ctx. A collector that is away is
// no failure of this process: what it did not take is logged.
func (c *Closers) Close(ctx context.Context, logger *slog.Logger) error {
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

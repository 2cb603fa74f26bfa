package demo

import (
	"context"
	"fmt"
	"io"
	"time"
)

// requestInterval is the time between two requests of the traffic of --keep.
const requestInterval = 40 * time.Millisecond

// stay makes live what was live before, and previews the change with its mistake once more, for
// somebody who looks at the page. It sends traffic until ctx is done. That it is interrupted is its end, and no error.
func (d *demo) stay(ctx context.Context, admin string) error {
	for _, args := range [][]string{
		{"apply", Policy, "-f", "deploy/examples/policy.yaml"}, {"apply", experiment, "-f", "deploy/examples/experiment.yaml"}, {"start", experiment},
	} {
		if err := d.call(ctx, io.Discard, io.Discard, args...); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.out, "\n%s\n   http://%s/ui/%s/policies/%s/experiments/%s\n   Ctrl-C ends it.\n", d.colour.Bold("It stays up, with traffic. Should you commit this one?"),
		admin, Location, Policy, experiment[len(Policy)+1:])
	for ticker := time.NewTicker(requestInterval); ; {
		select {
		case <-ctx.Done():
			ticker.Stop()
			return nil
		case <-ticker.C:
		}
		if _, err := d.ask(ctx, d.traffic.next()); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

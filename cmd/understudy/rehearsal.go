package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz/rehearsal/supervisor"
	"understudy/cmd/understudy/lifecycle"
	"understudy/rego/regotest"
)

// rehearsalConfig is what the rehearsal process may use: the process in which experiments
// are evaluated, and in which content is compiled before it is accepted.
type rehearsalConfig struct {
	// memory is in bytes; 0 is what fits the container.
	memory int64
	// share is a part of the container's quota of processors, from 0 to 1.
	share float64
	// requests is how many requests are kept in memory, to be replayed; 0 is none.
	requests int
}

// leastRehearsalMemory is less than the process needs for any policy, in bytes.
const leastRehearsalMemory = 32 << 20

// bind declares the flags.
func (c *rehearsalConfig) bind(f *pflag.FlagSet) {
	f.Int64Var(&c.memory, "rehearsal-memory", 0, "the memory of the process in which experiments are evaluated and content is compiled, in bytes; "+
		"what needs more is refused, or not evaluated any more (default 268435456, or a third of the container's limit if that is less)")
	f.Float64Var(&c.share, "rehearsal-share", 0.25, "the part of the container's quota of processors that this process may use, where there is a quota")
	f.IntVar(&c.requests, "rehearsal-requests", 0, "how many requests of the last hour are kept, with their credentials, in memory alone, to be "+
		"replayed at once for a preview that starts; 16 MiB at most, and none with a body above 4 KiB; 0 keeps none")
}

func (c *rehearsalConfig) check(check rule) {
	check(c.memory == 0 || c.memory >= leastRehearsalMemory, "rehearsal-memory", "it is a number of bytes from 33554432 on, or 0 for what fits the machine")
	check(c.requests >= 0, "rehearsal-requests", "it is a number of requests such as 2000, or 0 for none")
	check(0 < c.share && c.share <= 1, "rehearsal-share", "it is a number above 0 and up to 1, such as 0.25")
}

// startRehearsals makes what starts the rehearsal process as soon as there is something to
// do. It is closed with the server, after all that needs it.
func (s *server) startRehearsals(closers *lifecycle.Closers) (err error) {
	s.rehearsals, err = supervisor.New(supervisor.Config{
		Build: version, Memory: lifecycle.RehearsalMemory(s.config.rehearsal.memory), Share: s.config.rehearsal.share,
		Logger: s.log, Meters: s.telemetry.Meters,
	})
	if err != nil {
		return err
	}
	closers.Add("the rehearsal process", func(context.Context) error {
		s.rehearsals.Close()
		return nil
	})
	return nil
}

// compiler is the rehearsal process as the admin API needs it.
type compiler struct{ *supervisor.Supervisor }

func (c compiler) Compile(ctx context.Context, p *adminpb.Policy) error {
	return unavailable(c.Supervisor.Compile(ctx, p))
}

func (c compiler) Test(
	ctx context.Context, p *adminpb.Policy, limit time.Duration, options regotest.Options,
) (regotest.Report, error) {
	report, err := c.Supervisor.Test(ctx, p, limit, options)
	return report, unavailable(err)
}

// unavailable turns the error of a process that is not there into that of the API.
func unavailable(err error) error {
	if errors.Is(err, supervisor.ErrUnavailable) {
		return fmt.Errorf("%w: %w", admin.ErrNoCompiler, err)
	}
	return err
}

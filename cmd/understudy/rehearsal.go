package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz/rehearsal"
	"understudy/authz/rehearsal/supervisor"
	"understudy/cmd/understudy/lifecycle"
	"understudy/rego/change"
	"understudy/rego/regotest"
)

// previewConfig is what previews may cost.
type previewConfig struct {
	// log is all, differing or sampled:RATE.
	log string
	// which is what log says. It is set when that is checked; until then it is all.
	which rehearsal.PreviewLog
	// queue is how many requests may wait for one experiment. Beyond it previews are dropped,
	// and live decisions are not.
	queue int
	// queueBytes is what they may hold, in bytes: requests are as large as their bodies.
	queueBytes int
	// timeout bounds one evaluation. It is longer than that of live decisions: nobody
	// waits.
	timeout time.Duration
}

// bind declares the flags.
func (c *previewConfig) bind(f *pflag.FlagSet) {
	f.StringVar(&c.log, "preview-log", "all", "which comparisons are recorded, besides those that differ: all, "+
		"differing (none of the others), or sampled:RATE for a part of the others, such as sampled:0.01; all are counted")
	f.IntVar(&c.queue, "preview-queue", 4096, "how many requests may wait for the preview of one experiment; from half of that on, chance draws those that are compared")
	f.IntVar(&c.queueBytes, "preview-queue-bytes", 64<<20, "the memory that waiting requests may hold, in bytes; those of one experiment half of it")
	f.DurationVar(&c.timeout, "preview-timeout", time.Second,
		"the longest time for one evaluation of an experiment; past it the experiment has failed to decide")
}

// check checks the values.
func (c *previewConfig) check(check func(ok bool, flag, rule string)) {
	var err error
	if c.which, err = rehearsal.ParsePreviewLog(c.log); err != nil {
		check(false, "preview-log", err.Error())
	}
	check(c.queue > 0, "preview-queue", "it is a number above zero, such as 4096")
	check(c.queueBytes > 0, "preview-queue-bytes", "it is a number of bytes above zero, such as 67108864")
	check(c.timeout > 0, "preview-timeout", "it is a duration above zero, such as 1s")
}

// bounds returns what the evaluations may take.
func (c *previewConfig) bounds() rehearsal.Limits {
	return rehearsal.Limits{Queue: c.queue, QueueBytes: c.queueBytes, Timeout: c.timeout}
}

// rehearsalConfig is what the rehearsal process may use: the process in which experiments
// are evaluated, and in which content is compiled before it is accepted.
type rehearsalConfig struct {
	// memory is in bytes; 0 is what fits the container.
	memory int64
	// share is a part of the container's quota of processors, from 0 to 1.
	share float64
}

// leastRehearsalMemory is less than the process needs for any policy, in bytes.
const leastRehearsalMemory = 32 << 20

// bind declares the flags.
func (c *rehearsalConfig) bind(f *pflag.FlagSet) {
	f.Int64Var(&c.memory, "rehearsal-memory", 0, "the memory of the process in which experiments are evaluated and content is compiled, in bytes; "+
		"what needs more is refused, or not evaluated any more (default 268435456, or a third of the container's limit if that is less)")
	f.Float64Var(&c.share, "rehearsal-share", 0.25, "the part of the container's quota of processors that this process may use, where there is a quota")
}

func (c *rehearsalConfig) check(check rule) {
	check(c.memory == 0 || c.memory >= leastRehearsalMemory, "rehearsal-memory", "it is a number of bytes from 33554432 on, or 0 for what fits the machine")
	check(0 < c.share && c.share <= 1, "rehearsal-share", "it is a number above 0 and up to 1, such as 0.25")
}

// rehearsalOverhead is that of [supervisor.Config]. Tests with the race detector set it.
var rehearsalOverhead int

// startRehearsals makes what starts the rehearsal process as soon as there is something to
// do. It is closed with the server, after all that needs it.
func (s *server) startRehearsals(closers *lifecycle.Closers) (err error) {
	s.rehearsals, err = supervisor.New(supervisor.Config{
		Build: version, Memory: lifecycle.RehearsalMemory(s.config.rehearsal.memory), Share: s.config.rehearsal.share,
		Descriptors: s.grpcBodies.content, DuplicateKeys: s.config.allowsDuplicateKeys(), BodyMemory: s.config.bodyMemory,
		Overhead: rehearsalOverhead, Logger: s.log, Meters: s.telemetry.Meters,
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

func (c compiler) Items(ctx context.Context, live, candidate *adminpb.Policy, effective bool) (*change.List, error) {
	list, err := c.Supervisor.Items(ctx, live, candidate, effective)
	return list, unavailable(err)
}

// unavailable turns the error of a process that is not there into that of the API.
func unavailable(err error) error {
	if errors.Is(err, supervisor.ErrUnavailable) {
		return fmt.Errorf("%w: %w", admin.ErrNoCompiler, err)
	}
	return err
}

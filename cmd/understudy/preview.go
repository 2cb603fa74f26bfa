package main

import (
	"time"

	"understudy/authz/rehearsal"

	"github.com/spf13/pflag"
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
	f.IntVar(&c.queue, "preview-queue", 4096, "how many requests may wait for the preview of one experiment; more are dropped and counted")
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

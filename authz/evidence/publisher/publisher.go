package publisher

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"understudy/authz"
	"understudy/authz/evidence"
)

const (
	// fresh is the time after which what was compared for the first time is published.
	fresh = 500 * time.Millisecond
	// callTimeout bounds one publication, which the store tries again itself.
	callTimeout = 10 * time.Second
)

// Publisher publishes what a ledger has due.
type Publisher struct {
	// Feed is the store. Required.
	Feed authz.Feed
	// Node is the resource name of the node. Required.
	Node string
	// Ledger has what the node counts. Required.
	Ledger *evidence.Ledger
	// Intervals learns how many nodes there are. Required.
	Intervals *Intervals
	// Logger gets what fails. Required.
	Logger *slog.Logger
}

// Run publishes until ctx is done.
func (p *Publisher) Run(ctx context.Context) {
	ticker := time.NewTicker(fresh)
	defer ticker.Stop()
	next, last := time.Now(), time.Time{}
	var trouble outage
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			changed := now.Sub(last) >= p.Intervals.Change() && p.Ledger.Changed()
			if now.Before(next) && !changed && !p.Ledger.Fresh() {
				continue
			}
		}
		if err := p.publish(ctx); ctx.Err() == nil {
			trouble.note(p.Logger, time.Now(), err)
		}
		last = time.Now()
		next = last.Add(Jittered(p.Intervals.Publication()))
	}
}

// Finish ends all tallies and publishes them a last time. ctx bounds it.
func (p *Publisher) Finish(ctx context.Context) {
	p.Ledger.Close()
	// What was due when a publication failed comes first.
	for p.Ledger.Unfinished() {
		if err := p.publish(ctx); err != nil {
			p.Logger.Warn("what was counted last of experiments is lost: it could not be published", "error", err)
			return
		}
	}
}

// publish publishes what is due, and does without the store if nothing is.
func (p *Publisher) publish(ctx context.Context) error {
	due := p.Ledger.Due(p.Intervals.Publication())
	if len(due) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	done, err := p.Feed.Publish(ctx, p.Node, due)
	if err != nil {
		return err
	}
	p.Intervals.SetNodes(done.Nodes)
	var failed []error
	for _, e := range due {
		if err := done.Failed[e.Tally]; err != nil {
			failed = append(failed, err)
			continue
		}
		refused := slices.IndexFunc(done.Refused, func(r authz.RefusedTally) bool { return r.Tally == e.Tally })
		if refused >= 0 {
			p.Ledger.Refused(e.Tally, done.Refused[refused].Serial)
		} else {
			p.Ledger.Published(e.Tally, e.Serial)
		}
	}
	return errors.Join(failed...)
}

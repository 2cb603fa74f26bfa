package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"understudy/admin/redisstore"
	"understudy/authz"
)

// probeTime bounds how long a start waits for the store to say that it refuses.
const probeTime = 500 * time.Millisecond

// refusal returns the error of a store that answers and refuses, nil for one that takes
// us or does not answer for now.
func refusal(ctx context.Context, st store) error {
	remote, ok := st.(*redisstore.Store)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if err := remote.Probe(ctx); errors.Is(err, redisstore.ErrRefused) {
		return usage(fmt.Errorf("--store: %w", err))
	}
	return nil
}

// mayStart returns the error of a store that refuses, unless a sidecar has saved policies
// to decide by: a password that was changed must not end a sidecar that restarts. Without
// them the process could only deny and answer 503. It ends, for that is how a wrong
// password is seen when somebody deploys it, before the old sidecars are gone.
func mayStart(ctx context.Context, c storeConfig, st store, logger *slog.Logger) error {
	err := refusal(ctx, st)
	if err == nil {
		return nil
	}
	if _, _, saved := authz.ReadSnapshot(authz.Location(c.location), c.snapshotFile); saved != nil {
		return err
	}
	logger.Error("the store refuses this sidecar; starting with the saved policies, and asking again until it does not",
		"error", err, "file", c.snapshotFile)
	return nil
}

// riskEvery is the time between two questions to a store that does not answer.
const riskEvery = 5 * time.Second

// warnOfRisks warns, once the store answers, of what may make it lose policies.
func warnOfRisks(ctx context.Context, st store, logger *slog.Logger) {
	remote, ok := st.(*redisstore.Store)
	if !ok {
		return
	}
	ticker := time.NewTicker(riskEvery)
	defer ticker.Stop()
	for {
		risks, err := remote.Durability(ctx)
		if err == nil || errors.Is(err, redisstore.ErrNotTold) {
			logRisks(risks, err, logger)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func logRisks(risks []string, err error, logger *slog.Logger) {
	if err != nil {
		logger.Info("whether Redis keeps policies for good is not known: it has to have `appendonly yes` and "+
			"`maxmemory-policy noeviction`", "error", err)
	}
	for _, risk := range risks {
		logger.Warn("Redis may lose policies", "risk", risk)
	}
}

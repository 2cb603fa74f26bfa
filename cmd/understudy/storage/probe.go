package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"understudy/admin/redisstore"
	"understudy/authz"
	"understudy/authz/sidecar"
	"understudy/cmd/understudy/command"
)

// probeTime bounds how long a start waits for the store to say that it refuses.
const probeTime = 500 * time.Millisecond

// Refusal returns the error of a store that answers and refuses, nil for one that takes
// us or does not answer for now.
//
// The probe is short: whether a store that does not answer will refuse later is not worth
// a late start.
func Refusal(ctx context.Context, st Store) error {
	remote, ok := st.(*redisstore.Store)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	err := remote.Probe(ctx)
	for _, refusal := range []error{redisstore.ErrRefused, redisstore.ErrNoPrimary, redisstore.ErrCertificate, redisstore.ErrTooOld} {
		if errors.Is(err, refusal) {
			return command.Usage(fmt.Errorf("--store: %w", err))
		}
	}
	return nil
}

// MayStart returns the error of a store that refuses, unless a sidecar has saved policies
// to decide by: a password that was changed must not end a sidecar that restarts. Without
// them the process could only deny and answer 503. It ends, for that is how a wrong
// password is seen when somebody deploys it, before the old sidecars are gone.
func MayStart(ctx context.Context, c Config, st Store, logger *slog.Logger) error {
	err := Refusal(ctx, st)
	if err == nil {
		return nil
	}
	if _, _, saved := sidecar.ReadSnapshot(authz.Location(c.Location), c.SnapshotFile); saved != nil {
		return err
	}
	logger.Error("the store refuses this sidecar; starting with the saved policies, and asking again until it does not",
		"error", err, "file", c.SnapshotFile)
	return nil
}

// riskEvery is the time between two probes of a store that does not answer.
const riskEvery = 5 * time.Second

// WarnOfRisks warns, once the store answers, of what may make it lose policies.
//
// It returns when it knows, or when ctx is done. It is no reason not to start: a Redis
// that forgets is what a test may want.
func WarnOfRisks(ctx context.Context, st Store, logger *slog.Logger) {
	remote, ok := st.(*redisstore.Store)
	if !ok {
		return
	}
	ticker := time.NewTicker(riskEvery)
	defer ticker.Stop()
	for {
		risks, err := remote.Durability(ctx)
		if err == nil || errors.Is(err, redisstore.ErrNotReadable) {
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

// logRisks warns of each risk once, at the start: settings of a Redis seldom change.
func logRisks(risks []string, err error, logger *slog.Logger) {
	if err != nil {
		logger.Info("whether Redis keeps policies for good is not known: it has to have `appendonly yes` and "+
			"`maxmemory-policy noeviction`", "error", err)
	}
	for _, risk := range risks {
		logger.Warn("Redis may lose policies", "risk", risk)
	}
}

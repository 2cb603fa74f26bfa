package storage

import (
	"context"
	"log/slog"
	"time"

	"understudy/admin/redisstore"
)

// functionsEvery is the time between two looks at the primaries.
const functionsEvery = 5 * time.Second

// KeepFunctions loads the functions of a Redis on each primary that does not have them, until
// ctx is done. Sidecars wait for that: at the first start, after an upgrade, and where a
// primary was added to a cluster or came back without its data.
func KeepFunctions(ctx context.Context, st Store, logger *slog.Logger) {
	remote, ok := st.(*redisstore.Store)
	if !ok {
		return
	}
	ticker := time.NewTicker(functionsEvery)
	defer ticker.Stop()
	for failed, named := false, false; ; {
		err := remote.LoadFunctions(ctx)
		if err == nil && !named {
			named = true
			logger.Info("the functions of this version are in Redis", "library", remote.Library())
		}
		if err != nil && !failed && ctx.Err() == nil {
			logger.Warn("the functions of this version cannot be loaded into Redis, and sidecars that need them wait; this is tried again", "error", err)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

package storage

import (
	"context"
	"log/slog"
	"time"

	"understudy/admin/redisstore"
	"understudy/authz/background"
)

// functionsEvery is the time between two looks whether each primary has the functions, and
// librariesEvery that between two looks for libraries that no node calls.
const (
	functionsEvery = 5 * time.Second
	librariesEvery = time.Hour
)

// KeepFunctions loads the functions of a Redis on each primary that does not have them, until
// ctx is done. Sidecars wait for that: at the first start, after an upgrade, and where a
// primary was added to a cluster or came back without its data.
func KeepFunctions(ctx context.Context, st Store, logger *slog.Logger) {
	remote, ok := st.(*redisstore.Store)
	if !ok {
		return
	}
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
		if !background.Sleep(ctx, functionsEvery) {
			return
		}
	}
}

// WarnOfLibraries warns of each library of another version that no node calls any more, with the
// command that removes it, until ctx is done: everybody who may call functions of Redis can still
// call those of a version that has a fault.
func WarnOfLibraries(ctx context.Context, st Store, logger *slog.Logger) {
	remote, ok := st.(*redisstore.Store)
	if !ok {
		return
	}
	for warned := map[string]bool{}; ; {
		unused, err := remote.UnusedLibraries(ctx)
		if err != nil && ctx.Err() == nil {
			logger.Warn("cannot tell which libraries of other versions are needed; this is tried again in an hour", "error", err)
		}
		for _, name := range unused {
			if !warned[name] {
				logger.Warn("Redis has functions of another version that no node calls; unless nodes use another database of this Redis, remove them",
					"library", name, "command", "FUNCTION DELETE "+name)
			}
			warned[name] = true
		}
		if !background.Sleep(ctx, librariesEvery) {
			return
		}
	}
}

package main

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// gcPercent is how much a server's memory may grow, in per cent of what is in use,
// before garbage is collected. A sidecar keeps little and makes garbage at every
// request: collecting a quarter as often as Go does by default costs it some tens of
// megabytes and saves about a tenth of its processor time.
const gcPercent = 400

// tuneGC sets gcPercent, and 90 % of the container's memory as the limit near which
// garbage is collected more often instead: a sidecar that is killed for its memory
// denies everything. GOGC and GOMEMLIMIT win.
func tuneGC(log *slog.Logger) {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
	limit, err := memlimit.Set()
	if err != nil {
		log.Debug("the container's memory limit is not known", "error", err)
		return
	}
	log.Debug("memory is limited", "bytes", limit)
}

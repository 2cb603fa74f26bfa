package background

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits about the given time: from half of it to one and a half, so that processes that
// began to wait together do not go on together. It reports false if ctx is done first.
func Sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause/2 + rand.N(pause))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

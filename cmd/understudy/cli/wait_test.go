package cli

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestAWaitIsOverWhenTheServerSaysSoFirst: the server ends a call at its deadline, too. That is
// the end of the wait, and not a failure, unless the deadline is far away.
func TestAWaitIsOverWhenTheServerSaysSoFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		said, failed := status.Error(codes.DeadlineExceeded, "context deadline exceeded"), status.Error(codes.Unavailable, "")
		for _, c := range []struct {
			left         time.Duration
			said, failed bool
		}{{time.Minute, false, false}, {time.Millisecond, true, false}, {-time.Millisecond, true, true}} {
			deadline, _ := ctx.Deadline()
			time.Sleep(time.Until(deadline) - c.left)
			if got := isOver(ctx, said); got != c.said {
				t.Errorf("%v before the deadline, a server that says it is over gives %t", c.left, got)
			}
			if got := isOver(ctx, failed); got != c.failed {
				t.Errorf("%v before the deadline, a server that cannot be reached gives %t", c.left, got)
			}
		}
	})
}

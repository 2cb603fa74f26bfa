package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc"
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

// operationsAnswering answers WaitOperation with one error after the other, and then with an operation that is done.
type operationsAnswering struct {
	longrunningpb.OperationsClient
	errors []error
}

func (o *operationsAnswering) WaitOperation(
	_ context.Context, r *longrunningpb.WaitOperationRequest, _ ...grpc.CallOption,
) (*longrunningpb.Operation, error) {
	if len(o.errors) > 0 {
		err := o.errors[0]
		o.errors = o.errors[1:]
		return nil, err
	}
	return &longrunningpb.Operation{Name: r.Name, Done: true}, nil
}

// TestAwaitAsksAgainWhenTheAPIIsUnavailable: a change that is stored is waited for until the API answers again. Another
// error ends the command.
func TestAwaitAsksAgainWhenTheAPIIsUnavailable(t *testing.T) {
	t.Parallel()
	unavailable, internal := status.Error(codes.Unavailable, "the store is away"), status.Error(codes.Internal, "a fault")
	for _, c := range []struct {
		errors []error
		want   error
	}{{[]error{unavailable, unavailable, unavailable}, nil}, {[]error{unavailable, internal}, internal}} {
		synctest.Test(t, func(t *testing.T) {
			var notes strings.Builder
			client := &Client{addr: "127.0.0.1:9", wait: true, operations: &operationsAnswering{errors: c.errors}}
			client.Err = &notes
			op, err := client.await(t.Context(), &longrunningpb.Operation{Name: "operations/1"})
			if !errors.Is(err, c.want) || err == nil && !op.GetDone() {
				t.Errorf("it ends with %v and %v, want %v", op, err, c.want)
			}
			if !strings.Contains(notes.String(), "no answer from the admin API at 127.0.0.1:9; asking again") {
				t.Errorf("it says %q, which does not say that it asks again", &notes)
			}
		})
	}
}

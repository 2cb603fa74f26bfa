package port

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"understudy/cmd/testkit"
)

// slowHealth is a health service that answers the service "slow" when it is told to.
type slowHealth struct {
	*health.Server
	asked, answer chan struct{}
}

func (s slowHealth) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if r.Service == "slow" {
		close(s.asked)
		select {
		case <-s.answer:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

// serveCounted serves a health service with a bound of unfinished calls.
func serveCounted(t *testing.T, most int64) (*UnfinishedCalls, slowHealth, *grpc.ClientConn) {
	t.Helper()
	calls := NewUnfinishedCalls(nil)
	calls.half = most / 2
	server := grpc.NewServer(append(DefaultConnections.Options(), calls.Option())...)
	service := slowHealth{health.NewServer(), make(chan struct{}), make(chan struct{})}
	grpc_health_v1.RegisterHealthServer(calls.Server(server), service)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return calls, service, conn
}

// count is the number of unfinished calls.
func (u *UnfinishedCalls) count() int64 { return u.plain.Load() + u.endables.Load() }

// unfinished begins calls of a method, sends no message, and returns the channels on which their errors arrive. It
// waits until the server has counted each one, or ended another one for it.
func unfinished(t *testing.T, calls *UnfinishedCalls, conn *grpc.ClientConn, method string, n int) []<-chan error {
	t.Helper()
	var all []<-chan error
	for range n {
		before := calls.count()
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- stream.RecvMsg(&grpc_health_v1.HealthCheckResponse{}) }()
		all = append(all, ended)
		testkit.Await(t, "the call is counted", func() bool { return calls.count() > before || before >= 2*calls.half })
	}
	return all
}

const healthCheck = "/grpc.health.v1.Health/Check"

// TestUnfinishedCallsAreBounded: of the calls without a message, those that have waited longest end. A whole call is
// answered beside them, and one whose message has arrived takes as long as it needs.
func TestUnfinishedCallsAreBounded(t *testing.T) {
	t.Parallel()
	calls, service, conn := serveCounted(t, 40)
	client := grpc_health_v1.NewHealthClient(conn)
	all := unfinished(t, calls, conn, healthCheck, 30)

	slow := make(chan error, 1)
	go func() {
		_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "slow"})
		slow <- err
	}()
	testkit.Closed(t, "the slow call to be asked", service.asked)

	all = append(all, unfinished(t, calls, conn, healthCheck, 100)...)
	for i := 20; i < 100; i++ {
		if err := testkit.Receive(t, "the end of a call that has waited", all[i]); status.Code(err) != codes.Canceled {
			t.Errorf("the call %d ends with %v", i, err)
		}
		if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Fatalf("a whole call: %v", err)
		}
	}
	testkit.Await(t, "the calls that were ended are not counted", func() bool { return calls.count() <= 2*calls.half })
	for i, ended := range append(all[:20:20], all[len(all)-15:]...) {
		select {
		case err := <-ended:
			t.Errorf("the call %d ends with %v, and is among those that may wait", i, err)
		default:
		}
	}
	close(service.answer)
	if err := testkit.Receive(t, "the answer of the slow call", slow); err != nil {
		t.Errorf("a call whose message had arrived ends with %v", err)
	}
}

// TestStreamsAreUnfinishedCalls: watches of the health service are bounded, too, and no call that no service has is
// kept.
func TestStreamsAreUnfinishedCalls(t *testing.T) {
	t.Parallel()
	calls, _, conn := serveCounted(t, 10)
	client := grpc_health_v1.NewHealthClient(conn)
	var watches []grpc_health_v1.Health_WatchClient
	for range 30 {
		w, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = w.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		watches = append(watches, w)
	}
	for i := 5; i < 20; i++ {
		ended := make(chan error, 1)
		go func() {
			_, err := watches[i].Recv()
			ended <- err
		}()
		if err := testkit.Receive(t, "the end of a watch", ended); status.Code(err) != codes.Canceled {
			t.Errorf("the watch %d ends with %v", i, err)
		}
	}
	for range 100 {
		if err := conn.Invoke(t.Context(), "/none/None", &grpc_health_v1.HealthCheckRequest{}, &grpc_health_v1.HealthCheckResponse{}); status.Code(err) != codes.Unimplemented {
			t.Fatal(err)
		}
	}
	testkit.Await(t, "what has ended is not kept", func() bool { return calls.endables.Load() <= 5 && calls.count() <= 10 })
}

// TestFewUnfinishedCallsCostNothing: below half of the bound, a call has the context that gRPC gave it.
func TestFewUnfinishedCallsCostNothing(t *testing.T) {
	t.Parallel()
	calls := NewUnfinishedCalls(nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if got, err := calls.begin(ctx, nil); got != ctx || err != nil {
		t.Errorf("it is %v, %v", got, err)
	}
}

// TestABurstOfUnfinishedCallsIsBounded: of many calls that begin at one moment, those for which there is no room are
// refused or ended, and a whole call is answered afterwards.
func TestABurstOfUnfinishedCallsIsBounded(t *testing.T) {
	t.Parallel()
	calls, _, conn := serveCounted(t, 40)
	var over []<-chan error
	for range 200 {
		ended := make(chan error, 1)
		go func() {
			stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, healthCheck)
			if err == nil {
				err = stream.RecvMsg(&grpc_health_v1.HealthCheckResponse{})
			}
			ended <- err
		}()
		over = append(over, ended)
	}
	gone := 0
	testkit.Await(t, "no more than 40 calls are left", func() bool {
		for _, ended := range over {
			select {
			case err := <-ended:
				if code := status.Code(err); code != codes.Canceled && code != codes.ResourceExhausted {
					t.Errorf("a call ends with %v", err)
				}
				gone++
			default:
			}
		}
		return gone >= 160 && calls.count() <= 40
	}, func() any { return []int64{int64(gone), calls.count()} })
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("a whole call: %v", err)
	}
}

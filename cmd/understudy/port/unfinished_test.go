package port

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthservice "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"understudy/cmd/testkit"
)

// asks serves the health service within some bounds, and returns a client of it.
func asks(t *testing.T, u *Unfinished) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(append(DefaultConnections.Options(), u.Options()...)...)
	grpc_health_v1.RegisterHealthServer(server, healthservice.NewServer())
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	client, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// starts begins a call and sends no message.
func starts(t *testing.T, client *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	stream, err := client.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/grpc.health.v1.Health/Check")
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// endedAs is the code that a call ends with.
func endedAs(stream grpc.ClientStream) codes.Code {
	return status.Code(stream.RecvMsg(&grpc_health_v1.HealthCheckResponse{}))
}

// awaitTaken waits until some slots are taken.
func awaitTaken(t *testing.T, s *slots, want int) {
	t.Helper()
	taken := func() int { size, _ := s.numbers(); return size }
	testkit.Await(t, "the slots are taken", func() bool { return taken() == want }, func() any { return taken() })
}

// TestUnfinishedCalls: the oldest ends if there are too many, a call that is sent whole is answered,
// and one that its client gives up has no slot any more.
func TestUnfinishedCalls(t *testing.T) {
	t.Parallel()
	u := &Unfinished{calls: newSlots(2, 2), conversations: newSlots(1, 1)}
	client := asks(t, u)
	first := starts(t, client)
	awaitTaken(t, u.calls, 1)
	second := starts(t, client)
	awaitTaken(t, u.calls, 2)
	starts(t, client)
	if got := endedAs(first); got != codes.Canceled {
		t.Errorf("the oldest call ends with %v", got)
	}
	if _, err := grpc_health_v1.NewHealthClient(client).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("a call that is sent whole: %v", err)
	}
	if got := endedAs(second); got != codes.Canceled {
		t.Errorf("the next call ends with %v", got)
	}
	awaitTaken(t, u.calls, 1)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	awaitTaken(t, u.calls, 0)
	if _, ended := u.calls.numbers(); ended != 2 {
		t.Errorf("%d calls were ended", ended)
	}
}

// TestConversations: the oldest ends if there are too many; until then it lasts.
func TestConversations(t *testing.T) {
	t.Parallel()
	u := &Unfinished{calls: newSlots(2, 2), conversations: newSlots(1, 1)}
	client := asks(t, u)
	watch := grpc_health_v1.NewHealthClient(client).Watch
	first, err := watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := endedAs(first); got != codes.OK {
		t.Fatalf("the first answer: %v", got)
	}
	if _, err := watch(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := endedAs(first); got != codes.Canceled {
		t.Errorf("the oldest conversation ends with %v", got)
	}
	awaitTaken(t, u.conversations, 1)
	awaitTaken(t, u.calls, 0)
}

// TestAMessageIsLate: a call ends if its message does not come in time, and not after it has come.
func TestAMessageIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, err := NewUnfinished("authz", noop.NewMeterProvider())
		if err != nil {
			t.Fatal(err)
		}
		late, err := u.begin(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		inTime, err := u.begin(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(messageTime - 1)
		if late.Err() != nil {
			t.Error("a call ends before its time")
		}
		asked := func(ctx context.Context, request any) (any, error) { return request, ctx.Err() }
		if got, err := finishCall(inTime, "request", nil, asked); got != "request" || err != nil {
			t.Errorf("the handler gets %v, %v", got, err)
		}
		time.Sleep(messageTime)
		synctest.Wait()
		if late.Err() == nil || inTime.Err() != nil {
			t.Errorf("late: %v, in time: %v", late.Err(), inTime.Err())
		}
		if taken, _ := u.calls.numbers(); taken != 0 {
			t.Errorf("%d slots are taken", taken)
		}
	})
}

package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"

	"understudy/cmd/testkit"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/port"
	"understudy/cmd/understudy/port/certtest"
)

// TestACheckUnderWayIsAnswered begins a check, shuts the server down, and sends the
// rest of the check when the port is closed already.
func TestACheckUnderWayIsAnswered(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t, t.TempDir(), "ca")
	files := serverFiles(ca.Server(t, "server", 1))
	for name, c := range map[string]struct {
		files  port.TLSFiles
		socket bool
		how    cli.Transport
	}{
		"TCP": {}, "TLS": {files: files, how: cli.Transport{CACert: ca.File}}, "a socket": {socket: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := startServer(t, func(conf *config) {
				conf.authzTLS, conf.defaultDecision = c.files, "allow"
				if c.socket {
					conf.authzAddr = port.UnixScheme + filepath.Join(t.TempDir(), "authz.sock")
				}
			})
			addr := r.bound["authz"]
			if c.files.Given() {
				addr = cli.HTTPSScheme + addr
			}
			conn, err := c.how.Dial(addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			r.awaitReady(t)
			stream := begin(t, conn)
			r.stop()
			r.awaitDrained(t)
			if err := stream.SendMsg(plainCheck(t)); err != nil {
				t.Fatal(err)
			}
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			response := &authv3.CheckResponse{}
			if err := stream.RecvMsg(response); err != nil || codes.Code(response.GetStatus().GetCode()) != codes.OK {
				t.Errorf("the check under way is answered with %v, %v", response, err)
			}
		})
	}
}

// begin opens a check without its message, and returns once the server has it.
func begin(t *testing.T, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	t.Cleanup(cancel)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, authv3.Authorization_Check_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	// A call after it on the same connection comes after it.
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	return stream
}

// awaitDrained returns once the port is closed; before that, the process has to have
// said that it is not ready.
func (r *running) awaitDrained(t *testing.T) {
	t.Helper()
	network, addr := "tcp", r.bound["authz"]
	if path, unix := strings.CutPrefix(addr, port.UnixScheme); unix {
		network, addr = "unix", path
	}
	awaitClosed(t, network, addr)
	if code, body := r.call(t, "health", "GET", "/readyz", ""); code != 503 || !strings.Contains(body, "shutting down") {
		t.Errorf("/readyz answers %d %s", code, body)
	}
}

// TestReadinessGoesFirst sends SIGTERM to a process whose ports stay open during its
// drain delay: what comes then is answered, and everyone who asks hears that no more
// should come. The delay is longer than the test, which ends the process.
func TestReadinessGoesFirst(t *testing.T) {
	t.Parallel()
	r := startProcess(t, "--drain-delay", "1h", "--default-decision", "allow")
	watch, err := grpc_health_v1.NewHealthClient(r.conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	awaitStatus(t, watch, grpc_health_v1.HealthCheckResponse_SERVING)
	if err := r.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitStatus(t, watch, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	if code, body := r.call(t, "health", "GET", "/readyz", ""); code != 503 || !strings.Contains(body, "shutting down") {
		t.Errorf("/readyz answers %d %s", code, body)
	}
	if response, err := r.authz.Check(t.Context(), plainCheck(t)); err != nil || response.GetStatus().GetCode() != 0 {
		t.Errorf("a check is answered with %v, %v", response, err)
	}
	if code, body := r.call(t, "admin", "GET", policies, ""); code != 200 {
		t.Errorf("the admin API answers %d %s", code, body)
	}
}

// awaitClosed returns when nobody listens at an address any more.
func awaitClosed(t *testing.T, network, address string) {
	t.Helper()
	testkit.Await(t, "the port "+address+" closes", func() bool {
		conn, err := net.Dial(network, address)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}

func awaitStatus(t *testing.T, watch grpc_health_v1.Health_WatchClient, want grpc_health_v1.HealthCheckResponse_ServingStatus) {
	t.Helper()
	for {
		got, err := watch.Recv()
		if err != nil {
			t.Fatalf("waiting for %v: %v", want, err)
		}
		if got.Status == want {
			return
		}
	}
}

func TestTheSocketHasItsMode(t *testing.T) {
	t.Parallel()
	for octal, want := range map[string]os.FileMode{"0660": 0o660, "600": 0o600, "0777": 0o777} {
		path := filepath.Join(t.TempDir(), "authz.sock")
		startServer(t, func(c *config) { c.authzAddr, c.authzSocketMode = port.UnixScheme+path, octal }).awaitReady(t)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("--authz-socket-mode %s gives %v, want %v", octal, got, want)
		}
	}
}

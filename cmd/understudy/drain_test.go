package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"

	"understudy/authz/diagnostics/logtest"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/port"
	"understudy/cmd/understudy/port/certtest"
	"understudy/cmd/understudy/storage"
)

// TestACheckUnderWayIsAnswered begins a check, shuts the server down, and sends the
// rest of the check when the port is closed already.
func TestACheckUnderWayIsAnswered(t *testing.T) {
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
				conf.authzTLS, conf.defaultDecision, conf.shutdownTimeout = c.files, "allow", scriptTime
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
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
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
	for deadline := time.Now().Add(scriptTime); ; {
		conn, err := net.Dial(network, addr)
		if err != nil {
			break
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("the port does not close")
		}
	}
	if code, body := r.call(t, "health", "GET", "/readyz", ""); code != 503 || !strings.Contains(body, "shutting down") {
		t.Errorf("/readyz answers %d %s", code, body)
	}
}

// TestReadinessGoesFirst sends SIGTERM to a process whose ports stay open during its
// drain delay: what comes then is answered, and everyone who asks hears that no more
// should come. The delay is longer than the test, which ends the process.
func TestReadinessGoesFirst(t *testing.T) {
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

// started is the binary in a process of its own.
type started struct {
	*running
	process *os.Process
	// log is what it has written to standard error since its ports were open.
	log *logtest.Buffer
	// wait waits until the process has ended, and its log is complete. It returns the error
	// of exec.Cmd.Wait.
	wait func() error
}

// startProcess runs the binary until the test ends.
func startProcess(t *testing.T, flags ...string) *started {
	t.Helper()
	cmd := exec.Command("understudy", append([]string{
		"serve", "--authz-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--health-addr", "127.0.0.1:0",
		"--store", storage.BoltScheme + filepath.Join(t.TempDir(), "understudy.db"), "--decision-timeout", scriptTime.String(),
	}, flags...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &started{running: &running{bound: make(map[string]string)}, process: cmd.Process, log: &logtest.Buffer{}}
	p.readAddresses(stderr)
	read := make(chan struct{})
	go func() { _, _ = io.Copy(p.log, stderr); close(read) }()
	p.wait = sync.OnceValue(func() error {
		<-read
		return cmd.Wait()
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = p.wait()
	})
	if p.conn, err = (cli.Transport{}).Dial(p.bound["authz"]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.conn.Close() })
	p.authz = authv3.NewAuthorizationClient(p.conn)
	return p
}

// readAddresses reads a log until it has named the three ports.
func (p *started) readAddresses(log io.Reader) {
	lines := bufio.NewScanner(log)
	for len(p.bound) < 3 && lines.Scan() {
		for _, m := range address.FindAllStringSubmatch(lines.Text(), -1) {
			p.bound[m[1]] = m[2]
		}
	}
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

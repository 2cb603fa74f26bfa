package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// startTime bounds how long a redis-server may take to answer.
const startTime = 20 * time.Second

// Sentinel is the argument, followed by the path of a configuration file, that makes
// StartRedisTCP start a Sentinel.
const Sentinel = "--sentinel"

// Redis starts a private redis-server and returns its URL. It keeps nothing on disk
// and ends with the test.
func Redis(t testing.TB) (url string) {
	t.Helper()
	return StartRedis(t).URL()
}

// RedisServer is a private redis-server.
type RedisServer struct {
	network, address string
	process          *exec.Cmd
	stop             func()
}

// StartRedis starts a private redis-server on a unix socket, with further arguments
// as in redis.conf.
func StartRedis(t testing.TB, arguments ...string) *RedisServer {
	t.Helper()
	// The path of a socket has to be shorter than that of a test's folder can be.
	folder, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatalf("making a folder for redis-server: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket := filepath.Join(folder, "s")
	arguments = append([]string{"--port", "0", "--unixsocket", socket, "--dir", folder}, arguments...)
	return startRedis(t, "unix", socket, arguments)
}

// StartRedisTCP starts a private redis-server on a port of 127.0.0.1, for what does
// not work on sockets: Cluster and Sentinel.
func StartRedisTCP(t testing.TB, port string, arguments ...string) *RedisServer {
	t.Helper()
	own := []string{"--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir()}
	if len(arguments) > 1 && arguments[0] == Sentinel {
		// The configuration file comes first.
		own = append([]string{arguments[1], Sentinel}, own...)
		arguments = arguments[2:]
	}
	arguments = append(own, arguments...)
	return startRedis(t, "tcp", net.JoinHostPort("127.0.0.1", port), arguments)
}

func startRedis(t testing.TB, network, address string, arguments []string) *RedisServer {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("these tests need redis-server: apt-get install redis-server, or brew install redis")
	}
	if !slices.Contains(arguments, Sentinel) {
		arguments = append(arguments, "--maxclients", "4000", "--save", "", "--appendonly", "no")
	}
	r := &RedisServer{network: network, address: address, process: exec.Command(path, arguments...)}
	if err := r.process.Start(); err != nil {
		t.Fatalf("starting redis-server: %v", err)
	}
	r.stop = sync.OnceFunc(func() {
		_ = r.process.Process.Kill()
		_ = r.process.Wait()
	})
	t.Cleanup(r.stop)
	r.await(t)
	return r
}

// URL is what redisstore.Open takes.
func (r *RedisServer) URL() string {
	if r.network == "unix" {
		return "unix://" + r.address
	}
	return "redis://" + r.address
}

// Address is the network and the address of the server.
func (r *RedisServer) Address() (network, address string) { return r.network, r.address }

// Process is the process of the server, for tests that halt it.
func (r *RedisServer) Process() *os.Process { return r.process.Process }

// Stop kills the server.
func (r *RedisServer) Stop() { r.stop() }

// await returns when the server answers.
func (r *RedisServer) await(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := r.ping(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("redis-server does not answer: %v", err)
		case <-ticker.C:
		}
	}
}

func (r *RedisServer) ping(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, r.network, r.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	// One that asks for a password is up too.
	if err == nil && !strings.HasPrefix(line, "+PONG") && !strings.HasPrefix(line, "-NOAUTH") {
		err = errors.New(strings.TrimSpace(line))
	}
	return err
}

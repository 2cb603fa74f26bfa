package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"understudy/cmd/testkit"
)

// Sentinel is the argument, followed by the path of a configuration file, that makes
// StartRedisTCP start a Sentinel.
const Sentinel = "--sentinel"

// Redis starts a private redis-server and returns its URL. It keeps nothing on disk
// and ends with the test, or with the test binary if that is killed.
func Redis(t testing.TB) (url string) {
	t.Helper()
	return StartRedis(t).URL()
}

// Patient returns the URL of a Redis with the time limits of tests, unless it has others: on a busy machine even Redis
// answers late.
func Patient(url string) string {
	if strings.Contains(url, "_timeout=") {
		return url
	}
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return url + separator + fmt.Sprintf("dial_timeout=%[1]s&read_timeout=%[1]s&write_timeout=%[1]s&pool_timeout=%[1]s", testkit.Patience)
}

// RedisServer is a private redis-server.
type RedisServer struct {
	network, address string
	arguments        []string
	// tlsAddress is host:port of connections with TLS; empty if there are none.
	tlsAddress string
	process    *exec.Cmd
	// ended is closed when the process is no more.
	ended chan struct{}
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
	arguments = append([]string{"--port", "0", "--unixsocket", socket, "--dir", folder, "--busy-reply-threshold", neverBusy}, arguments...)
	return startRedis(t, "unix", socket, arguments)
}

// neverBusy is a threshold that no function reaches: on a busy machine one that is harmless may take seconds.
const neverBusy = "0"

// StartRedisTCP starts a private redis-server on a port of 127.0.0.1, for what does
// not work on sockets: Cluster and Sentinel.
func StartRedisTCP(t testing.TB, arguments ...string) *RedisServer {
	t.Helper()
	var first []string
	if len(arguments) > 1 && arguments[0] == Sentinel {
		// The configuration file comes first.
		first, arguments = []string{arguments[1], Sentinel}, arguments[2:]
	}
	if first == nil {
		arguments = append([]string{"--busy-reply-threshold", neverBusy}, arguments...)
	}
	folder := t.TempDir()
	for {
		// redis-server cannot say which free port it took, so ports are tried until one is free.
		port := strconv.Itoa(lowestPort + rand.IntN(ports))
		own := append(slices.Clone(first), "--bind", "127.0.0.1", "--port", port, "--dir", folder)
		r := launchRedis(t, "tcp", net.JoinHostPort("127.0.0.1", port), append(own, arguments...))
		if r.await(t) == nil {
			return r
		}
	}
}

// StartSentinel starts a Sentinel that watches a primary, a server on a port; see SentinelConfig.
func StartSentinel(t testing.TB, primary *RedisServer, lines ...string) *RedisServer {
	t.Helper()
	return StartRedisTCP(t, Sentinel, SentinelConfig(t, primary.Port(), lines...))
}

// SentinelConfig writes the configuration of a Sentinel that watches a port of 127.0.0.1 as main,
// with further lines, which count more than its own, and returns its path. The Sentinel begins a
// failover that has not succeeded in 20 s again.
func SentinelConfig(t testing.TB, port string, lines ...string) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	text := "sentinel monitor main 127.0.0.1 " + port + " 1\nsentinel down-after-milliseconds main 500\n" +
		"sentinel failover-timeout main 20000\n" + strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// Servers listen below the ports that systems give to clients, and so do the buses of
// clusters, 10,000 above: else a connection of another test may have the port.
const (
	lowestPort = 12_000
	ports      = 10_000
)

// startRedis starts a redis-server and waits until it answers. Its address is its own, so
// what fails here fails for good.
func startRedis(t testing.TB, network, address string, arguments []string) *RedisServer {
	t.Helper()
	r := launchRedis(t, network, address, arguments)
	if err := r.await(t); err != nil {
		t.Fatal(err)
	}
	return r
}

// launchRedis starts a redis-server that may not answer yet.
func launchRedis(t testing.TB, network, address string, arguments []string) *RedisServer {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("these tests need redis-server: apt-get install redis-server, or brew install redis")
	}
	// Nothing is saved, for a test that needs a file says so; many clients are those of tests
	// that run at once.
	all := slices.Clone(arguments)
	if !slices.Contains(arguments, Sentinel) {
		all = append(all, "--maxclients", "4000", "--save", "", "--appendonly", "no")
	}
	r := &RedisServer{
		network: network, address: address, arguments: arguments,
		process: exec.Command(path, all...), ended: make(chan struct{}),
	}
	if err := testkit.Start(r.process); err != nil {
		t.Fatalf("starting redis-server: %v", err)
	}
	go func() {
		_ = r.process.Wait()
		close(r.ended)
	}()
	t.Cleanup(r.Stop)
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

// Port is the port that a server listens on; empty if that is a socket.
func (r *RedisServer) Port() string {
	_, port, _ := net.SplitHostPort(r.address)
	return port
}

// Process is the process of the server, for tests that halt it.
func (r *RedisServer) Process() *os.Process { return r.process.Process }

// Stop kills the server, as a crash does, and returns when it is gone. It can be called more
// than once.
func (r *RedisServer) Stop() {
	_ = r.process.Process.Kill()
	<-r.ended
}

// Restart starts a server that was stopped again, at the same address and on the same files.
func (r *RedisServer) Restart(t testing.TB) {
	t.Helper()
	again := launchRedis(t, r.network, r.address, r.arguments)
	if err := again.await(t); err != nil {
		t.Fatal(err)
	}
	r.process, r.ended = again.process, again.ended
}

// errEnded: the server ended before it answered, as one does whose port is taken.
var errEnded = errors.New("redis-server ended")

// await returns nil when the server answers, and errEnded if it ended before.
func (r *RedisServer) await(t testing.TB) (err error) {
	t.Helper()
	var probed error
	testkit.Await(t, "redis-server answers at "+r.address, func() bool {
		select {
		case <-r.ended:
			err = errEnded
			return true
		default:
			probed = r.probe(t.Context())
			return probed == nil
		}
	}, func() any { return probed })
	return err
}

// probe says whether this very server answers at the address, and not another.
func (r *RedisServer) probe(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, r.network, r.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		return err
	}
	if _, err := fmt.Fprint(conn, "INFO server\r\n"); err != nil {
		return err
	}
	// One that asks for a password is up too. Only sockets of their own have that.
	own := fmt.Sprintf("process_id:%d\r\n", r.process.Process.Pid)
	for reply := bufio.NewReader(conn); ; {
		line, err := reply.ReadString('\n')
		switch {
		case err != nil:
			return err
		case line == own, strings.HasPrefix(line, "-NOAUTH"):
			return nil
		case strings.HasPrefix(line, "-"), strings.HasPrefix(line, "process_id:"):
			return fmt.Errorf("not yet, or not this server: %q", line)
		}
	}
}

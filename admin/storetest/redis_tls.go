package storetest

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// RedisTLS are the PEM files of a redis-server.
type RedisTLS struct {
	// CA has the authorities of the certificates of clients.
	CA string
	// Cert and Key are the certificate that clients get.
	Cert, Key string
	// ClientCert and ClientKey are the certificate that other servers get: nodes of a Cluster,
	// and what a Sentinel watches.
	ClientCert, ClientKey string
}

// StartRedisTLS starts a private redis-server that takes connections with TLS on a port of
// 127.0.0.1. Each client has to show a certificate. Address is a unix socket without TLS, for
// what a test does itself.
func StartRedisTLS(t testing.TB, files RedisTLS, arguments ...string) *RedisServer {
	t.Helper()
	var first []string
	if len(arguments) > 1 && arguments[0] == Sentinel {
		first, arguments = []string{arguments[1], Sentinel}, arguments[2:]
	}
	// The path of a socket has to be shorter than that of a test's folder can be.
	folder, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatalf("making a folder for redis-server: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket := filepath.Join(folder, "s")
	for {
		// As with StartRedisTCP, a port may be taken.
		port := strconv.Itoa(lowestPort + rand.IntN(ports))
		own := append(slices.Clone(first), "--bind", "127.0.0.1", "--port", "0", "--tls-port", port, "--unixsocket", socket, "--dir", folder,
			"--tls-ca-cert-file", files.CA, "--tls-cert-file", files.Cert, "--tls-key-file", files.Key,
			"--tls-client-cert-file", files.ClientCert, "--tls-client-key-file", files.ClientKey,
			"--tls-replication", "yes", "--tls-cluster", "yes")
		r := launchRedis(t, "unix", socket, append(own, arguments...))
		r.tlsAddress = net.JoinHostPort("127.0.0.1", port)
		if r.await(t) == nil {
			return r
		}
	}
}

// TLSAddress is host:port of a server of StartRedisTLS.
func (r *RedisServer) TLSAddress() string { return r.tlsAddress }

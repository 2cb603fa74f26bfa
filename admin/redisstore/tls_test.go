package redisstore_test

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"understudy/admin"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	"understudy/cmd/understudy/command"
	tlsfiles "understudy/cmd/understudy/port"
	"understudy/cmd/understudy/port/certtest"
)

// pki is an authority, the certificates of servers that it has signed, and the files of a client.
type pki struct {
	*certtest.Authority
	server storetest.RedisTLS
	client tlsfiles.ClientFiles
}

// newPKI makes all of it. Certificates are valid for long.
func newPKI(t *testing.T, name certtest.Name) pki {
	t.Helper()
	a := certtest.NewAuthority(t, t.TempDir(), name)
	server, peer := a.Server(t, "server", 1), a.Client(t, "peer", time.Hour)
	client := a.Client(t, "client", time.Hour)
	return pki{
		Authority: a,
		server:    storetest.RedisTLS{CA: a.File, Cert: server.Cert, Key: server.Key, ClientCert: peer.Cert, ClientKey: peer.Key},
		client: tlsfiles.ClientFiles{
			CA:   command.FlagValue{Flag: "store-ca-file", Value: a.File},
			Cert: command.FlagValue{Flag: "store-cert-file", Value: client.Cert},
			Key:  command.FlagValue{Flag: "store-key-file", Value: client.Key},
		},
	}
}

// certificates are files, as a process has them.
func certificates(t *testing.T, files tlsfiles.ClientFiles) *tlsfiles.ClientCertificates {
	t.Helper()
	c, err := tlsfiles.NewClientCertificates("store", files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// withFiles is the option of a store with files.
func withFiles(t *testing.T, files tlsfiles.ClientFiles) redisstore.Option {
	t.Helper()
	return redisstore.WithTLS(certificates(t, files).Config)
}

// tlsPort is the port of a server for connections with TLS.
func tlsPort(t *testing.T, server *storetest.RedisServer) string {
	t.Helper()
	_, port, err := net.SplitHostPort(server.TLSAddress())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// A store works through TLS. If one side does not accept the certificate of the other, the error
// says which one and names the flag, and nothing was sent.
func TestTLS(t *testing.T) {
	t.Parallel()
	own, other := newPKI(t, "own"), newPKI(t, "other")
	noCertificate, otherClient, otherAuthority := own.client, own.client, own.client
	noCertificate.Cert.Value, noCertificate.Key.Value = "", ""
	otherClient.Cert, otherClient.Key = other.client.Cert, other.client.Key
	otherAuthority.CA = other.client.CA
	for _, version := range []string{"TLSv1.2", "TLSv1.3"} {
		server := storetest.StartRedisTLS(t, own.server, "--tls-protocols", version)
		url := "rediss://" + server.TLSAddress()
		if _, err := open(t, url, withFiles(t, own.client)).Commit(t.Context(), put("first")); err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		for name, c := range map[string]struct {
			files tlsfiles.ClientFiles
			says  string
		}{
			"no certificate":       {noCertificate, "it asks for a client certificate, and there is none; name its PEM files with --store-cert-file"},
			"another certificate":  {otherClient, "--store-cert-file needs a certificate"},
			"another authority":    {otherAuthority, "--store-ca-file"},
			"the system's, and no": {tlsfiles.ClientFiles{}, "--store-ca-file"},
		} {
			store := open(t, url, withFiles(t, c.files))
			if c.files == (tlsfiles.ClientFiles{}) {
				store = open(t, url)
			}
			_, errCommit := store.Commit(t.Context(), put("second"))
			for doing, err := range map[string]error{"probing": store.Probe(t.Context()), "committing": errCommit} {
				if !errors.Is(err, redisstore.ErrCertificate) || !errors.Is(err, admin.ErrUnavailable) ||
					errors.Is(err, admin.ErrOutcomeUnknown) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s, %s, %s: %v, want one that says %s", version, name, doing, err, c.says)
				}
			}
		}
	}
}

// Files of certificates and a URL without TLS do not go together.
func TestCertificatesNeedTLS(t *testing.T) {
	t.Parallel()
	files := withFiles(t, newPKI(t, "own").client)
	for _, url := range []string{
		"redis://127.0.0.1:1", "unix:///nonexistent/s", "redis+cluster://127.0.0.1:1", "redis+sentinel://127.0.0.1:1/m",
	} {
		if store, err := redisstore.Open(url, files); !errors.Is(err, redisstore.ErrNoTLS) {
			t.Errorf("%s: %v", url, err)
			if err == nil {
				_ = store.Close()
			}
		}
	}
	for _, url := range []string{"rediss://127.0.0.1:1", "rediss+cluster://127.0.0.1:1", "rediss+sentinel://127.0.0.1:1/m"} {
		open(t, url, files)
	}
}

// A new connection uses the files as they are then: another authority of Redis, and another
// client certificate. While a file is broken, the last valid ones are used.
func TestRotatedCertificates(t *testing.T) {
	t.Parallel()
	before, after := newPKI(t, "before"), newPKI(t, "after")
	server := storetest.StartRedisTLS(t, before.server)
	owner := client(t, server)
	files := certificates(t, before.client)
	store := open(t, "rediss://"+server.TLSAddress(), redisstore.WithTLS(files.Config))
	commit := func(when, id string) {
		t.Helper()
		// A connection that is open stays.
		if err := owner.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal").Err(); err != nil {
			t.Fatal(err)
		}
		txn := put(id)
		txn.Conditions = nil
		if _, err := store.Commit(t.Context(), txn); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	commit("the first files", "1")

	if err := os.WriteFile(before.client.CA.Value, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	commit("a broken file", "2")
	if problem := files.Problem(); !strings.Contains(problem, "--store-ca-file "+before.client.CA.Value) {
		t.Errorf("the problem is %q", problem)
	}
	if err := os.Remove(before.client.CA.Value); err != nil {
		t.Fatal(err)
	}
	commit("a missing file", "3")
	if problem := files.Problem(); !strings.Contains(problem, "no such file") {
		t.Errorf("the problem is %q", problem)
	}

	for to, from := range map[string]string{
		before.client.CA.Value: after.client.CA.Value, before.client.Cert.Value: after.client.Cert.Value, before.client.Key.Value: after.client.Key.Value,
	} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := owner.Do(t.Context(), "CONFIG", "SET", "tls-cert-file", after.server.Cert, "tls-key-file", after.server.Key, "tls-ca-cert-file", after.server.CA,
		"tls-client-cert-file", after.server.ClientCert, "tls-client-key-file", after.server.ClientKey).Err()
	if err != nil {
		t.Fatal(err)
	}
	commit("the next files", "4")
	if problem := files.Problem(); problem != "" {
		t.Errorf("the problem is still %q", problem)
	}
}

// The files are for a Sentinel and for the Redis that it names.
func TestSentinelWithTLS(t *testing.T) {
	t.Parallel()
	own := newPKI(t, "own")
	primary := storetest.StartRedisTLS(t, own.server)
	sentinel := storetest.StartRedisTLS(t, own.server, storetest.Sentinel, storetest.SentinelConfig(t, tlsPort(t, primary)))
	url := "rediss+sentinel://" + sentinel.TLSAddress() + "/main"
	store := open(t, url, withFiles(t, own.client))
	eventually(t, "the store answers", func() error {
		_, err := store.Get(t.Context(), web)
		return err
	})
	if _, err := store.Commit(t.Context(), put("first")); err != nil {
		t.Error(err)
	}
	noCertificate := own.client
	noCertificate.Cert.Value, noCertificate.Key.Value = "", ""
	if err := open(t, url, withFiles(t, noCertificate)).Probe(t.Context()); !errors.Is(err, redisstore.ErrCertificate) || !strings.Contains(err.Error(), "--store-cert-file") {
		t.Errorf("without a client certificate: %v", err)
	}
}

// The files are for each node of a Cluster.
func TestClusterWithTLS(t *testing.T) {
	t.Parallel()
	own := newPKI(t, "own")
	var nodes []*storetest.RedisServer
	for range 2 {
		nodes = append(nodes, storetest.StartRedisTLS(t, own.server, "--cluster-enabled", "yes", "--cluster-node-timeout", "60000"))
	}
	joinCluster(t, nodes, tlsPort(t, nodes[1]))
	url := "rediss+cluster://" + nodes[0].TLSAddress()
	store := open(t, url, withFiles(t, own.client))
	// The functions are on both nodes, of which the URL names one.
	eventually(t, "the cluster answers", func() error { return store.LoadFunctions(t.Context()) })
	for _, node := range nodes {
		libraryOf(t, client(t, node))
	}
	if _, err := store.Commit(t.Context(), put("first")); err != nil {
		t.Error(err)
	}
	noCertificate := own.client
	noCertificate.Cert.Value, noCertificate.Key.Value = "", ""
	if err := open(t, url, withFiles(t, noCertificate)).Probe(t.Context()); !errors.Is(err, redisstore.ErrCertificate) || !strings.Contains(err.Error(), "--store-cert-file") {
		t.Errorf("without a client certificate: %v", err)
	}
}

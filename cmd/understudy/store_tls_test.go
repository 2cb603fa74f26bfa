package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"understudy/admin/storetest"
	"understudy/cmd/testkit"
	"understudy/cmd/understudy/port/certtest"
	"understudy/cmd/understudy/storage"
)

// startRedisTLS starts a Redis that asks for client certificates, and returns the files of a
// client.
func startRedisTLS(t *testing.T) (*storetest.RedisServer, storage.TLSFiles) {
	t.Helper()
	ca := certtest.NewAuthority(t, t.TempDir(), "ca")
	server, client := ca.Server(t, "server", 1), ca.Client(t, "client", 100*24*time.Hour)
	redis := storetest.StartRedisTLS(t, storetest.RedisTLS{
		CA: ca.File, Cert: server.Cert, Key: server.Key, ClientCert: client.Cert, ClientKey: client.Key,
	})
	// The files of Redis stay when a test changes those of the client.
	own := filepath.Join(t.TempDir(), "ca.crt")
	copyFile(t, ca.File, own)
	return redis, storage.TLSFiles{CA: own, Cert: client.Cert, Key: client.Key}
}

// A file of certificates that becomes invalid changes no decision: /readyz, the metrics and the
// log show it until it is valid again.
func TestFilesOfTheStore(t *testing.T) {
	t.Parallel()
	redis, files := startRedisTLS(t)
	r := startServer(t, func(c *config) { c.Store, c.TLS, c.tlsReload = "rediss://"+redis.TLSAddress(), files, reloadSoon })
	r.preview(t)
	r.awaitReadiness(t, "no fault", func(ready readiness) bool { return ready.StoreFileError == "" && ready.StoreError == "" })
	saved := filepath.Join(t.TempDir(), "saved")
	copyFile(t, files.CA, saved)
	if err := os.Remove(files.CA); err != nil {
		t.Fatal(err)
	}
	r.awaitReadiness(t, "the missing file", func(ready readiness) bool {
		return strings.HasPrefix(ready.StoreFileError, "--store-ca-file: open "+files.CA)
	})
	_, metrics := r.call(t, "health", "GET", "/metrics", "")
	for _, want := range []string{`understudy_tls_certificate_expiry_seconds{`, `port="store"`, `understudy_tls_reload_failing{`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	// All connections are made anew, with the last valid files.
	sendToRedis(t, redis, "CLIENT KILL TYPE normal")
	testkit.Await(t, "the store is asked over a new connection", func() bool {
		code, _ := r.call(t, "admin", "GET", policies, "")
		return code == 200
	})
	copyFile(t, saved, files.CA)
	r.awaitReadiness(t, "the valid file", func(ready readiness) bool { return ready.StoreFileError == "" })
}

// A Redis that does not accept the certificate of a process ends its start, as one does that
// refuses its password. Commands take the files too.
func TestClientCertificateOfTheStoreIsNeeded(t *testing.T) {
	t.Parallel()
	redis, files := startRedisTLS(t)
	url, snapshot := "rediss://"+redis.TLSAddress()+"?dial_timeout=1m&read_timeout=1m", filepath.Join(t.TempDir(), "none")
	c := storage.Config{Store: url, TLS: storage.TLSFiles{CA: files.CA}}
	certificates, err := storage.Certificates(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	st, err := storage.Open(c, certificates)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	const says = "name its PEM files with --store-cert-file and --store-key-file"
	testkit.Await(t, "Redis refuses the connection", func() bool {
		err = storage.Refusal(t.Context(), st)
		return err != nil
	})
	if !strings.Contains(err.Error(), says) {
		t.Errorf("a start without a certificate: %v", err)
	}
	restore := []string{"restore", "--empty", "--store", url, "--location", lostLocation, "--snapshot-file", snapshot, "--store-ca-file", files.CA}
	if code, out, errs := runCommand(t, restore...); code == 0 || !strings.Contains(errs, says) {
		t.Errorf("restore without a certificate: exit code %d, %s%s", code, out, errs)
	}
	if code, out, errs := runCommand(t, append(restore, "--store-cert-file", files.Cert, "--store-key-file", files.Key)...); code != 0 {
		t.Errorf("restore: exit code %d, %s%s", code, out, errs)
	}
}

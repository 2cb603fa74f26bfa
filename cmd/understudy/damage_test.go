package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"understudy/admin"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	adminpb "understudy/admin/v1"
)

// TestADamagedFileEndsTheServer with one message, which says how to go on, and exit code 1;
// the file stays as it is.
func TestADamagedFileEndsTheServer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "understudy.db")
	for name, content := range map[string][]byte{"empty": nil, "no store": bytes.Repeat([]byte("x"), 1<<16)} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		code := run(context.Background(), []string{
			"serve", "--store", "bolt://" + path, "--authz-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--health-addr", "127.0.0.1:0",
		}, strings.NewReader(""), &stderr, &stderr)
		text := stderr.String()
		if code != 1 || !strings.Contains(text, path) || !strings.Contains(text, "understudy restore") || strings.Contains(text, "goroutine") {
			t.Errorf("%s: exit code %d, %s", name, code, text)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, content) {
			t.Errorf("%s: the file was changed, %v", name, err)
		}
	}
}

// TestADamagedPolicyIsNamed: a server that starts on a store in which one policy cannot be
// read is ready, names it, denies by it, and follows all others.
func TestADamagedPolicyIsNamed(t *testing.T) {
	t.Parallel()
	url := storetest.Redis(t)
	store, err := redisstore.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	const shop, other = "projects/p1/locations/l1/policies/shop", "projects/p1/locations/l1/policies/other"
	whole, err := proto.Marshal(&adminpb.Policy{Name: other, Etag: "e"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(t.Context(), admin.Txn{ID: "1", Project: "p1", Writes: []admin.Write{
		admin.Put{Key: shop, Value: []byte("\x0a\xff\x01nonsense"), Etag: "e"},
		admin.Put{Key: other, Value: whole, Etag: "e"},
	}}); err != nil {
		t.Fatal(err)
	}
	r := startServer(t, func(c *config) { c.Store = url })
	if code := r.checkWhenReady(t, "GET"); code == 0 {
		t.Error("a policy that cannot be read allows")
	}
	code, body := r.call(t, "health", "GET", "/readyz", "")
	var ready readiness
	if err := json.Unmarshal([]byte(body), &ready); err != nil || code != 200 || !ready.Ready ||
		len(ready.NotApplied) != 1 || ready.NotApplied[0] != shop || ready.NotAppliedCount != 1 || ready.Policies != 2 {
		t.Errorf("/readyz is %d %s, %v", code, body, err)
	}
	_, metrics := r.call(t, "health", "GET", "/metrics", "")
	if !strings.Contains(metrics, "\nunderstudy_apply_failures_total 1\n") {
		t.Error("the failure is not counted")
	}
	if code, body := r.call(t, "admin", "DELETE", policies+"/shop", ""); code != 200 {
		t.Errorf("deleting it: %d %s", code, body)
	}
	if code, body := r.call(t, "admin", "GET", policies+"/shop", ""); code != 404 {
		t.Errorf("then it is %d %s", code, body)
	}
}

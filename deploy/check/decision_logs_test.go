package check_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/logging"
	"github.com/open-policy-agent/opa/v1/sdk"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown/builtins"
	"github.com/sirupsen/logrus"

	"understudy/authz/logreader"
)

// opaModules are what the OPA of the tests decides and masks by.
var opaModules = map[string]string{
	"authz.rego": `package envoy.authz
default allow := false
allow if { input.attributes.request.http.method == "GET"; time.now_ns() > 0 }`,
	"mask.rego": `package system.log
mask contains "/input/attributes/request/http/headers/authorization"
mask contains {"op": "upsert", "path": "/input/attributes/request/http/headers/x-user", "value": "hidden"}`,
}

// opaStore has the modules.
func opaStore(t *testing.T) storage.Store {
	t.Helper()
	ctx, store := t.Context(), inmem.New()
	err := storage.Txn(ctx, store, storage.WriteParams, func(txn storage.Transaction) error {
		for name, text := range opaModules {
			if err := store.UpsertPolicy(ctx, txn, name, []byte(text)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// uploads is an HTTP service that decision logs are uploaded to. It keeps the bodies as they
// come.
type uploads struct {
	mu     sync.Mutex
	chunks [][]byte
}

func (u *uploads) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(body) > 0 && strings.HasPrefix(r.URL.Path, "/logs") {
		u.chunks = append(u.chunks, body)
	}
}

// now is the clock of the first decision; each is a minute after the one before.
var now = time.Date(2026, 5, 4, 3, 2, 1, 500, time.UTC)

// decide has an OPA decide requests and end. It returns what it printed and what it uploaded.
func decide(t *testing.T, requests int) (console []byte, chunks [][]byte) {
	t.Helper()
	service := &uploads{}
	server := httptest.NewServer(service)
	defer server.Close()
	config := fmt.Sprintf(`{"services": {"sink": {"url": %q}}, "nd_builtin_cache": true, "labels": {"region": "eu"},
"decision_logs": {"service": "sink", "console": true, "reporting": {"min_delay_seconds": 1, "max_delay_seconds": 1, "upload_size_limit_bytes": 600}}}`, server.URL)
	var out bytes.Buffer
	printed := logging.New()
	printed.SetOutput(&out)
	printed.SetFormatter(&logrus.JSONFormatter{}) // what `opa run` sets by default
	opa, err := sdk.New(t.Context(), sdk.Options{
		ID: "test", Config: strings.NewReader(config), Store: opaStore(t), ConsoleLogger: printed, Logger: logging.NewNoOpLogger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range requests {
		_, err := opa.Decision(t.Context(), sdk.DecisionOptions{
			Path: "envoy/authz/allow", Now: now.Add(time.Duration(i) * time.Minute), DecisionID: fmt.Sprint(i),
			NDBCache: builtins.NDBCache{}, Input: input(i),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	printed.WithFields(map[string]any{"req_id": 7, "req_path": "/health"}).Info("Received request.")
	// It uploads the rest if it has some time for that.
	ending, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	opa.Stop(ending)
	service.mu.Lock()
	defer service.mu.Unlock()
	return out.Bytes(), service.chunks
}

// input is that of a request.
func input(i int) any {
	return map[string]any{"attributes": map[string]any{"request": map[string]any{"http": map[string]any{
		"method": []string{"GET", "POST"}[i%2], "path": fmt.Sprintf("/ünï/%d?q=1", i),
		"headers": map[string]any{"authorization": "Bearer x", "x-user": "ann", "accept": "*/*"},
	}}}}
}

// read reads a file whole.
func read(t *testing.T, file []byte) (p logreader.Parsed) {
	t.Helper()
	scanner, err := logreader.NewScanner(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for {
		record, err := scanner.Next()
		broken := (*logreader.BrokenError)(nil)
		switch {
		case err == nil:
			p.Parse(slices.Clone(record.Text))
		case errors.As(err, &broken):
			p.Broken = append(p.Broken, broken.Error())
		case errors.Is(err, io.EOF):
			return p
		default:
			t.Fatal(err)
		}
	}
}

// TestOPA reads what a real OPA prints and uploads: the same decisions, with what its masks did.
func TestOPA(t *testing.T) {
	const requests = 20
	console, chunks := decide(t, requests)
	printed := read(t, console)
	if len(printed.Entries) != requests || printed.Other != 1 || len(printed.Broken) != 0 {
		t.Fatalf("of the console: %d decisions, %d other lines, broken %q; want %d, 1 and none\n%s",
			len(printed.Entries), printed.Other, printed.Broken, requests, console)
	}
	if len(chunks) < 2 {
		t.Fatalf("OPA uploaded %d chunks; the test wants several", len(chunks))
	}
	uploaded := read(t, bytes.Join(chunks, nil)) // one file of all chunks, as gzip allows
	if len(uploaded.Entries) != requests || uploaded.Other != 0 || len(uploaded.Broken) != 0 {
		t.Fatalf("of the uploads: %d decisions, %d others, broken %q; want %d and none", len(uploaded.Entries), uploaded.Other, uploaded.Broken, requests)
	}
	for i, e := range printed.Entries {
		if diff := cmp.Diff(about(t, e), about(t, uploaded.Entries[i])); diff != "" {
			t.Errorf("decision %d, -console +upload:\n%s", i, diff)
		}
		want := entry{
			ID: fmt.Sprint(i), Time: now.Add(time.Duration(i) * time.Minute), Path: "envoy/authz/allow", Result: i%2 == 0,
			Method: []string{"GET", "POST"}[i%2], URL: fmt.Sprintf("/ünï/%d?q=1", i), User: "hidden",
			Erased: []string{"/input/attributes/request/http/headers/authorization"},
			Masked: []string{"/input/attributes/request/http/headers/x-user"},
		}
		if diff := cmp.Diff(want, about(t, e)); diff != "" {
			t.Errorf("decision %d, -want +got:\n%s", i, diff)
		}
	}
}

// entry is what the tests look at in an entry.
type entry struct {
	ID, Path, Method, URL, User, Authorization string
	Time                                       time.Time
	Result                                     any
	Erased, Masked                             []string
}

func about(t *testing.T, e logreader.Entry) entry {
	t.Helper()
	result, err := e.Result.Value()
	if err != nil {
		t.Fatal(err)
	}
	http := e.Input.At("attributes", "request", "http")
	return entry{
		ID: e.DecisionID, Path: e.Path, Time: e.Time, Result: result, Method: http.At("method").Text(), URL: http.At("path").Text(),
		User: http.At("headers", "x-user").Text(), Authorization: http.At("headers", "authorization").Text(),
		Erased: e.Erased.Texts(), Masked: e.Masked.Texts(),
	}
}

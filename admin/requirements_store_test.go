package admin_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"understudy/admin"
	"understudy/admin/boltstore"
	"understudy/authz"
)

// stores is what both stores implement.
type stores interface {
	admin.Store
	authz.Feed
}

// openStore is a store that one row has for itself.
type openStore struct {
	stores
	// project is the row's own.
	project string
	// another opens the store as another process would.
	another func(t *testing.T) *openStore
	// lose makes the store unreachable for the rest of the row.
	lose func()
	// address tells a child process how to open the store; release lets it.
	address string
	release func()
}

// backend is a technology that rows run on.
type backend struct {
	name string
	open func(t *testing.T, c *clock) *openStore
}

var backends = []backend{{"bolt", openBolt}}

// clock is the time of a row's servers and store: the real one, moved.
type clock struct {
	mu    sync.Mutex
	moved time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.moved)
}

func (c *clock) move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved += by
}

// openBolt opens a file of the row's own. One process holds it, so another server
// is another one on the same store.
func openBolt(t *testing.T, c *clock) *openStore {
	path := filepath.Join(t.TempDir(), "understudy.db")
	return openBoltFile(t, path, c)
}

func openBoltFile(t *testing.T, path string, c *clock) *openStore {
	store, err := boltstore.Open(path, boltstore.WithClock(c.now))
	if err != nil {
		t.Fatal(err)
	}
	release := sync.OnceFunc(func() {
		if err := store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	t.Cleanup(release)
	o := &openStore{stores: store, project: "p1", address: "bolt:" + path, lose: release, release: release}
	o.another = func(*testing.T) *openStore { return o }
	return o
}

// projectOf makes a project ID of a test's name, so that rows can share a server.
func projectOf(t *testing.T) string {
	_, row, _ := strings.Cut(t.Name(), "/")
	row, _, _ = strings.Cut(row, "/")
	return "p-" + strings.ToLower(row)
}

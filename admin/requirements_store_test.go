package admin_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"understudy/admin"
	"understudy/admin/boltstore"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
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
	// address is by what the store can be opened once more: bolt:PATH or a URL.
	address string
	// release lets go of the store, so that another process can have it.
	release func()
}

// backend is a technology that rows run on.
type backend struct {
	name string
	// open returns a store for one row, whose project has to be its own.
	open func(t *testing.T, project string, c *clock) *openStore
}

// backends returns both stores. Redis is one server for all rows, which have a
// project each; bbolt is a file for each row.
func backends(t *testing.T) []backend {
	url := storetest.Patient(storetest.Redis(t))
	return []backend{
		{"redis", func(t *testing.T, project string, c *clock) *openStore {
			return openAddress(t, url, project, c)
		}},
		{"bolt", func(t *testing.T, project string, c *clock) *openStore {
			return openAddress(t, "bolt:"+filepath.Join(folder(t), "understudy.db"), project, c)
		}},
	}
}

// folder returns a new folder, in memory if the system has one: the rows make thousands of
// changes, and a disk takes milliseconds to keep one.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "understudy-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// openAddress opens a store and closes it when the test ends.
func openAddress(t *testing.T, address, project string, c *clock) *openStore {
	t.Helper()
	var opened interface {
		stores
		Close() error
	}
	var err error
	if path, ok := strings.CutPrefix(address, "bolt:"); ok {
		opened, err = boltstore.Open(path, boltstore.WithClock(c.now))
	} else {
		opened, err = redisstore.Open(address, redisstore.WithClock(c.now))
	}
	if err != nil {
		t.Fatal(err)
	}
	release := sync.OnceFunc(func() {
		if err := opened.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	t.Cleanup(release)
	return &openStore{stores: opened, project: project, address: address, release: release}
}

// another opens the store as another process would. A file is held by one process,
// so there it is the same store.
func (o *openStore) another(r *row) *openStore {
	if o.isFile() {
		return o
	}
	return openAddress(r.T, o.address, o.project, r.clock)
}

func (o *openStore) isFile() bool { return strings.HasPrefix(o.address, "bolt:") }

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

// newBoltStore opens a store in a temporary folder.
func newBoltStore(t testing.TB) admin.Store {
	t.Helper()
	store, err := boltstore.Open(filepath.Join(t.TempDir(), "understudy.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

package recovery_test

import (
	"path/filepath"
	"testing"

	"understudy/admin"
	"understudy/admin/boltstore"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	"understudy/authz"
)

// openStore is what both stores implement.
type openStore interface {
	admin.Store
	authz.Feed
	Close() error
}

// backend is a technology that a location is kept in.
type backend struct {
	name string
	open func(t *testing.T) openStore
}

// backends returns both stores. Both are empty: a Redis of its own, and a file of its own
// for each open.
func backends(t *testing.T) []backend {
	t.Helper()
	url := storetest.Redis(t)
	return []backend{
		{"redis", func(t *testing.T) openStore {
			t.Helper()
			store, err := redisstore.Open(url)
			return closed(t, store, err)
		}},
		{"bolt", func(t *testing.T) openStore {
			t.Helper()
			store, err := boltstore.Open(filepath.Join(t.TempDir(), "understudy.db"))
			return closed(t, store, err)
		}},
	}
}

// closed has the test close a store at its end.
func closed(t *testing.T, store openStore, err error) openStore {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return store
}

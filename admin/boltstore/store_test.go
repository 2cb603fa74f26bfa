package boltstore_test

import (
	"path/filepath"
	"testing"

	"understudy/admin/boltstore"
	"understudy/admin/storetest"
)

func TestStore(t *testing.T) { storetest.Run(t, openNew) }

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, openNew) }

// openNew opens a store in a file of its own.
func openNew(t testing.TB, c storetest.Config) storetest.Both {
	var options []boltstore.Option
	if c.Clock != nil {
		options = append(options, boltstore.WithClock(c.Clock))
	}
	if c.StreamLength != 0 {
		options = append(options, boltstore.WithStreamLength(c.StreamLength))
	}
	return open(t, filepath.Join(t.TempDir(), "new", "understudy.db"), options...)
}

func open(t testing.TB, path string, options ...boltstore.Option) *boltstore.Store {
	t.Helper()
	store, err := boltstore.Open(path, options...)
	if err != nil {
		t.Fatalf("opening the store: %v", err)
	}
	t.Cleanup(func() { closeStore(t, store) })
	return store
}

func closeStore(t testing.TB, store *boltstore.Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Errorf("closing the store: %v", err)
	}
}

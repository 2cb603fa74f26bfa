package boltstore_test

import (
	"path/filepath"
	"strings"
	"testing"

	"understudy/admin"
	"understudy/admin/boltstore"
	"understudy/admin/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, openNew, map[string]storetest.Damage{
		"cut":   rewrite([]byte("short")),
		"empty": rewrite(nil),
		"bit":   flip,
		"etag":  rewrite([]byte("12345678" + "12345678" + "\xff\xff\xff\xff" + "etag")),
	})
}

// flip changes one bit of a value, which may be as good a policy as the one before.
func flip(t testing.TB, store storetest.Both, key admin.Key) {
	project := strings.Split(string(key), "/")[1]
	value, err := store.(*boltstore.Store).Raw(project, "records", []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	value[len(value)-1] ^= 1
	rewrite(value)(t, store, key)
}

// rewrite puts bytes in the place of a record.
func rewrite(value []byte) storetest.Damage {
	return func(t testing.TB, store storetest.Both, key admin.Key) {
		project := strings.Split(string(key), "/")[1]
		if err := store.(*boltstore.Store).PutRaw(project, "records", []byte(key), value); err != nil {
			t.Fatal(err)
		}
	}
}

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

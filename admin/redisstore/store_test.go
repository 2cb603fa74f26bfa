package redisstore_test

import (
	"testing"

	"understudy/admin/redisstore"
	"understudy/admin/storetest"
)

func TestStore(t *testing.T) { storetest.Run(t, opener(storetest.Redis(t))) }

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, opener(storetest.Redis(b))) }

// opener opens a store on one server for each test.
func opener(url string) storetest.Open {
	return func(t testing.TB, c storetest.Config) storetest.Both { return open(t, url, options(c)...) }
}

func options(c storetest.Config) (options []redisstore.Option) {
	if c.Clock != nil {
		options = append(options, redisstore.WithClock(c.Clock))
	}
	if c.StreamLength != 0 {
		options = append(options, redisstore.WithStreamLength(c.StreamLength))
	}
	return options
}

func open(t testing.TB, url string, options ...redisstore.Option) *redisstore.Store {
	t.Helper()
	store, err := redisstore.Open(t.Context(), url, options...)
	if err != nil {
		t.Fatalf("opening the store: %v", err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return store
}

package redisstore_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"understudy/admin"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	url := storetest.Redis(t)
	server, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(server)
	t.Cleanup(func() { _ = c.Close() })
	ctx := t.Context()
	storetest.Run(t, opener(url), map[string]storetest.Damage{
		"version": harm(func(p, name string) error { return c.HSet(ctx, p+"versions", name, "nonsense").Err() }),
		"number": harm(func(p, name string) error {
			return c.HSet(ctx, p+"versions", name, "1 "+strings.Repeat("9", 30)+" e").Err()
		}),
		"lost version": harm(func(p, name string) error { return c.HDel(ctx, p+"versions", name).Err() }),
		"lost value":   harm(func(p, name string) error { return c.HDel(ctx, p+"values", name).Err() }),
	})
}

// harm harms a record of a location, a policy or what is below one, in the hashes of its
// partition.
func harm(harm func(partition, name string) error) storetest.Damage {
	return func(t testing.TB, _ storetest.Both, key admin.Key) {
		segments := strings.Split(string(key), "/")
		partition := "understudy:{" + segments[1] + "}/" + segments[3] + "/control/"
		if last := segments[len(segments)-2]; last == "policies" || last == "experiments" {
			partition = "understudy:{" + segments[1] + "}/" + segments[3] + "/feed/"
		}
		if err := harm(partition, string(key)); err != nil {
			t.Fatal(err)
		}
	}
}

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

// open opens a store. Its timeouts are longer than a busy machine takes, unless the URL has some.
func open(t testing.TB, url string, options ...redisstore.Option) *redisstore.Store {
	t.Helper()
	store, err := redisstore.Open(storetest.Patient(url), options...)
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

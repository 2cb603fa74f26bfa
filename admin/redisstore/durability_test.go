package redisstore_test

import (
	"errors"
	"strings"
	"testing"

	"understudy/admin"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	"understudy/authz"
)

func TestDurability(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	c := client(t, server)
	store := open(t, server.URL())
	for _, step := range []struct {
		setting, value string
		want           []string
	}{
		{"maxmemory-policy", "noeviction", []string{"loses all policies; set `appendonly yes`"}},
		{"save", "3600 1", []string{`save is "3600 1"`}},
		{"maxmemory-policy", "allkeys-lru", []string{"set `maxmemory-policy noeviction`", "appendonly yes"}},
		{"appendonly", "yes", []string{"maxmemory-policy is allkeys-lru"}},
		{"maxmemory-policy", "noeviction", nil},
	} {
		if err := c.ConfigSet(t.Context(), step.setting, step.value).Err(); err != nil {
			t.Fatal(err)
		}
		risks, err := store.Durability(t.Context())
		if err != nil || len(risks) != len(step.want) {
			t.Fatalf("%s %s: %q, %v", step.setting, step.value, risks, err)
		}
		for i, text := range step.want {
			if !strings.Contains(risks[i], text) {
				t.Errorf("%s %s: %q; want %q", step.setting, step.value, risks[i], text)
			}
		}
	}
}

// TestDurabilityOfACluster asks each primary.
func TestDurabilityOfACluster(t *testing.T) {
	t.Parallel()
	risks, err := open(t, startCluster(t)).Durability(t.Context())
	if err != nil || len(risks) != 2 || !strings.HasPrefix(risks[0], "127.0.0.1:") || risks[0] == risks[1] {
		t.Errorf("got %q, %v", risks, err)
	}
}

// TestDurabilityIsNotTold asks a Redis that does not let the user ask.
func TestDurabilityIsNotTold(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	if err := client(t, server).Do(t.Context(), "ACL", "SETUSER", "app", "on", ">right", "~*", "&*", "+@all", "-config").Err(); err != nil {
		t.Fatal(err)
	}
	_, path := server.Address()
	store := open(t, "unix://app:right@"+path)
	if risks, err := store.Durability(t.Context()); !errors.Is(err, redisstore.ErrNotReadable) || len(risks) > 0 {
		t.Errorf("got %q, %v", risks, err)
	}
	if _, err := store.Load(t.Context(), authz.Scope{Location: location}); err != nil {
		t.Errorf("the store itself: %v", err)
	}
	server.Stop()
	if _, err := store.Durability(t.Context()); !errors.Is(err, admin.ErrUnavailable) {
		t.Errorf("a server that is gone: %v", err)
	}
}

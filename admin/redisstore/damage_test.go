package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"understudy/admin"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/testkit"
)

// Redis does not undo what a failed function wrote: a key of a wrong type must be
// found before anything is (G-3).
func TestWrongType(t *testing.T) {
	server := storetest.StartRedis(t)
	store, redis := open(t, server.URL()), client(t, server)
	for _, key := range []string{
		ofProject + "sequence", ofProject + "done:txn", ofProject + "locations", ofProject + "watermark", ofFeed + "watermark", ofFeed + "index", ofFeed + "versions",
		ofFeed + "values", ofFeed + "expiries", ofFeed + "changes", ofControl + "index", ofControl + "expiries",
	} {
		t.Run(key, func(t *testing.T) {
			ctx := t.Context()
			if err := redis.FlushAll(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			if err := redis.PFAdd(ctx, key, "wrong").Err(); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(key, "sequence") || strings.HasSuffix(key, "done:txn") || key == ofProject+"watermark" {
				if err := errors.Join(redis.Del(ctx, key).Err(), redis.SAdd(ctx, key, "wrong").Err()); err != nil {
					t.Fatal(err)
				}
			}
			txn := put("txn")
			txn.Writes = append(txn.Writes, admin.Put{Key: web.In("revisions").Key("r")})
			if _, err := store.Commit(ctx, txn); !errors.Is(err, redisstore.ErrWrongType) {
				t.Errorf("error %v", err)
			}
			keys, err := redis.Keys(ctx, "*").Result()
			if diff := cmp.Diff([]string{key}, keys); err != nil || diff != "" {
				t.Errorf("left behind: %s, %v", diff, err)
			}
		})
	}
}

// A summary that is lost is no damage: it is made for speed, and the value says the same.
func TestLostSummary(t *testing.T) {
	server := storetest.StartRedis(t)
	store, redis := open(t, server.URL()), client(t, server)
	if _, err := store.Commit(t.Context(), admin.Txn{ID: "a", Project: "p1", Writes: []admin.Write{
		admin.Put{Key: web, Value: []byte("value"), Summary: []byte("summary")},
	}}); err != nil {
		t.Fatal(err)
	}
	if n, err := redis.HDel(t.Context(), "understudy:{p1}/l1/feed/values", string(web)+" summary").Result(); n != 1 || err != nil {
		t.Fatalf("%d summaries were lost, %v", n, err)
	}
	found, err := store.Summaries(t.Context(), web)
	if err != nil || found[0].Damage != nil || string(found[0].Value) != "value" {
		t.Errorf("got %+v, %v", found, err)
	}
}

// A damaged record stands in the way of no Txn: what trims or expires its collection
// passes it over, for a function that fails between writes would leave half of them.
func TestDamagedRecordInCollection(t *testing.T) {
	server := storetest.StartRedis(t)
	store, redis := open(t, server.URL()), client(t, server)
	revisions := admin.Collection(web + "/revisions")
	txn := admin.Txn{ID: "a", Project: "p1"}
	for _, id := range []string{"a", "b", "c"} {
		txn.Writes = append(txn.Writes, admin.Put{Key: admin.Key(revisions) + "/" + admin.Key(id)})
	}
	if _, err := store.Commit(t.Context(), txn); err != nil {
		t.Fatal(err)
	}
	damaged := string(revisions) + "/b"
	for i, damage := range []func() error{
		func() error { return redis.HSet(t.Context(), ofControl+"versions", damaged, "nonsense").Err() },
		func() error { return redis.HDel(t.Context(), ofControl+"versions", damaged).Err() },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Commit(t.Context(), admin.Txn{ID: fmt.Sprint(i), Project: "p1", Writes: []admin.Write{
			admin.ExpireCollection{Collection: revisions, ExpireTime: time.Now().Add(time.Hour)},
			admin.TrimCollection{Collection: revisions, Keep: 1},
		}}); err != nil {
			t.Fatal(err)
		}
		records, err := store.Get(t.Context(), admin.Key(revisions)+"/a", admin.Key(revisions)+"/c")
		if err != nil || records[0].Key != "" || records[1].ExpireTime.IsZero() {
			t.Errorf("what is left of the others: %+v, %v", records, err)
		}
	}
}

// A counter that was lost makes no function fail at its end: sequences go on behind
// the stream's last one.
func TestLostCounter(t *testing.T) {
	server := storetest.StartRedis(t)
	store, redis := open(t, server.URL()), client(t, server)
	txn := put("a")
	var last int64
	for range 3 {
		var err error
		txn.ID, txn.Conditions = txn.ID+"a", nil
		if last, err = store.Commit(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
	if err := redis.Del(t.Context(), ofProject+"sequence").Err(); err != nil {
		t.Fatal(err)
	}
	txn.ID = "b"
	if sequence, err := store.Commit(t.Context(), txn); err != nil || sequence <= last {
		t.Errorf("sequence %d, %v", sequence, err)
	}
}

// Functions that the server has lost are loaded again.
func TestLostFunctions(t *testing.T) {
	server := storetest.StartRedis(t)
	store, redis := open(t, server.URL()), client(t, server)
	warm(t, store)
	if err := redis.FunctionFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(t.Context(), put("a")); err != nil {
		t.Error(err)
	}
}

// Two processes on one Redis see what each other wrote as soon as it is written.
func TestTwoStores(t *testing.T) {
	t.Parallel()
	url := storetest.Redis(t)
	one, two := open(t, url), open(t, url)
	waiting := make(chan authz.Update)
	go func() {
		update, err := two.Next(t.Context(), authz.Scope{Location: location}, authz.Cursor{})
		if err != nil {
			t.Errorf("following: %v", err)
		}
		waiting <- update
	}()
	for n := range 100 {
		key := admin.Key(fmt.Sprintf("projects/p1/locations/l1/policies/p%d", n))
		stores := []*redisstore.Store{one, two}
		sequence, err := stores[n%2].Commit(t.Context(), admin.Txn{
			ID: string(key), Project: "p1", Writes: []admin.Write{admin.Put{Key: key}},
		})
		if err != nil {
			t.Fatal(err)
		}
		records, err := stores[1-n%2].Get(t.Context(), key)
		if err != nil || records[0].Sequence != sequence {
			t.Fatalf("the other store reads %+v, %v", records, err)
		}
	}
	txn := put("event")
	txn.Writes = nil
	sequence, err := one.Commit(t.Context(), txn)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := two.Commit(t.Context(), txn); err != nil || again != sequence {
		t.Errorf("the other store repeats it as %d, %v", again, err)
	}
	if update := testkit.Receive(t, "the next change", waiting); update.Cursor.Sequence != sequence {
		t.Errorf("the other store follows to %+v instead of %d", update.Cursor, sequence)
	}
}

// A failover to a replica that had not got the last changes: followers have to
// load, whatever has come instead.
func TestFailover(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	store, redis := open(t, server.URL()), client(t, server)
	change := func(id string) authz.Cursor {
		txn := put(id)
		txn.Conditions, txn.Writes = nil, nil
		if _, err := store.Commit(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
		update, err := store.Load(t.Context(), authz.Scope{Location: location})
		if err != nil {
			t.Fatal(err)
		}
		return update.Cursor
	}
	kept := change("kept")
	replica := dump(t, redis)
	lost := change("lost")
	waiting := make(chan error)
	go func() {
		_, err := store.Next(t.Context(), authz.Scope{Location: location}, lost)
		waiting <- err
	}()
	restore(t, redis, replica)
	if err := testkit.Receive(t, "a Next to end with an error", waiting); !errors.Is(err, authz.ErrTrimmed) {
		t.Errorf("a follower that waited: %v", err)
	}
	head, err := store.Heartbeat(t.Context(), &adminpb.Node{Name: string(location) + "/nodes/n"})
	if err != nil || head.Cursor != kept {
		t.Errorf("the head is %+v, %v", head, err)
	}
	testkit.Await(t, "the millisecond of the lost change is over", func() bool { return time.Now().UnixMilli() > lost.Sequence })
	instead := change("instead")
	if instead.Sequence <= lost.Sequence {
		t.Errorf("%+v came instead of %+v", instead, lost)
	}
	for range 2 {
		if _, err := store.Next(t.Context(), authz.Scope{Location: location}, lost); !errors.Is(err, authz.ErrTrimmed) {
			t.Errorf("a follower of the lost change: %v", err)
		}
		if update, err := store.Next(t.Context(), authz.Scope{Location: location}, kept); err != nil || update.Cursor == lost {
			t.Errorf("a follower that had not seen it: %+v, %v", update, err)
		}
		change("later")
	}
}

func dump(t *testing.T, c *redis.Client) map[string]string {
	t.Helper()
	keys, err := c.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, key := range keys {
		if out[key], err = c.Dump(t.Context(), key).Result(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func restore(t *testing.T, c *redis.Client, keys map[string]string) {
	t.Helper()
	_, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.FlushDB(t.Context())
		for key, value := range keys {
			p.Restore(t.Context(), key, 0, value)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What expired long ago is removed from Redis, by the next Txn that is about its partition.
func TestExpiredAreRemoved(t *testing.T) {
	server := storetest.StartRedis(t)
	now := time.Now()
	clock := func() time.Time { return now }
	store, redis := open(t, server.URL(), redisstore.WithClock(clock)), client(t, server)
	txn := put("a")
	txn.Writes = []admin.Write{admin.Put{Key: web, Value: []byte("x"), ExpireTime: now.Add(time.Hour)}}
	if _, err := store.Commit(t.Context(), txn); err != nil {
		t.Fatal(err)
	}
	now = now.Add(3 * time.Hour)
	txn = admin.Txn{ID: "b", Project: "p1", Conditions: []admin.Condition{admin.Absent{Key: web}}}
	if _, err := store.Commit(t.Context(), txn); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"index", "versions", "values", "expiries"} {
		if n, err := redis.Exists(t.Context(), ofFeed+key).Result(); err != nil || n != 0 {
			t.Errorf("%s is still there, %v", key, err)
		}
	}
}

// Reports older than an hour are dropped, by the clock of Redis.
func TestOldReports(t *testing.T) {
	server := storetest.StartRedis(t)
	store, c := open(t, server.URL()), client(t, server)
	beat := func(id string) {
		if _, err := store.Heartbeat(t.Context(), &adminpb.Node{Name: string(location) + "/nodes/" + id}); err != nil {
			t.Fatal(err)
		}
	}
	beat("old")
	beats := ofReports + "heartbeats"
	if err := c.ZIncrBy(t.Context(), beats, -3_600_000, string(location)+"/nodes/old").Err(); err != nil {
		t.Fatal(err)
	}
	if reports, err := store.Nodes(t.Context(), location); err != nil || len(reports) != 0 {
		t.Errorf("%d reports, %v", len(reports), err)
	}
	beat("new")
	if n, err := c.HLen(t.Context(), ofReports+"nodes").Result(); err != nil || n != 1 {
		t.Errorf("%d reports are stored, %v", n, err)
	}
}

// Closing a store ends those who wait.
func TestClose(t *testing.T) {
	store, err := redisstore.Open(storetest.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error)
	go func() {
		_, err := store.Next(context.WithoutCancel(t.Context()), authz.Scope{Location: location}, authz.Cursor{})
		waiting <- err
	}()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if err := testkit.Receive(t, "a Next to end with an error", waiting); !errors.Is(err, admin.ErrUnavailable) {
		t.Errorf("the follower: %v", err)
	}
}

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"understudy/admin"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

const (
	location = authz.Location("projects/p1/locations/l1")
	web      = admin.Key(location + "/policies/web")
)

// put returns a Txn that creates the policy web and tells of it.
func put(id string) admin.Txn {
	return admin.Txn{
		ID: id, Project: "p1",
		Conditions: []admin.Condition{admin.Absent{Key: web}},
		Writes:     []admin.Write{admin.Put{Key: web, Value: []byte("new")}},
		Events:     []admin.Event{{Location: location, Policies: []authz.PolicyName{authz.PolicyName(web)}}},
	}
}

// warm makes the scripts known to the server, so that each Txn is one EVALSHA.
func warm(t *testing.T, store *redisstore.Store) {
	t.Helper()
	if _, err := store.Commit(t.Context(), admin.Txn{ID: "warm", Project: "warm"}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), web); err != nil {
		t.Fatal(err)
	}
}

func client(t *testing.T, server *storetest.RedisServer) *redis.Client {
	t.Helper()
	network, address := server.Address()
	c := redis.NewClient(&redis.Options{Network: network, Addr: address})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A reply that is lost does not turn success into failure, nor is the change made
// twice.
func TestLostReply(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	p := newProxy(t, server, "evalsha")
	store := open(t, p.url())
	warm(t, store)
	for lost := range int64(4) {
		id := fmt.Sprintf("lost-%d", lost)
		txn := put(id)
		txn.Project, txn.Events = id, nil
		txn.Conditions = []admin.Condition{admin.Absent{Key: admin.Key("projects/" + id + "/x/y")}}
		txn.Writes = []admin.Write{admin.Put{Key: admin.Key("projects/" + id + "/x/y")}}
		p.passed.Store(0)
		p.replies.Store(lost)
		sequence, err := store.Commit(t.Context(), txn)
		if err != nil || sequence != 1 {
			t.Errorf("%d replies lost: sequence %d, %v", lost, sequence, err)
		}
		if n := p.passed.Load(); n != lost+1 {
			t.Errorf("%d replies lost: the server got %d requests", lost, n)
		}
	}
}

// A condition that fails is told although its reply was lost.
func TestLostReplyOfFailure(t *testing.T) {
	t.Parallel()
	p := newProxy(t, storetest.StartRedis(t), "evalsha")
	store := open(t, p.url())
	warm(t, store)
	txn := put("fails")
	txn.Conditions = []admin.Condition{admin.Exists{Key: web}}
	p.replies.Store(2)
	_, err := store.Commit(t.Context(), txn)
	var failed *admin.ConditionError
	if !errors.As(err, &failed) {
		t.Errorf("error %v", err)
	}
}

// A request that never reached the server is sent again.
func TestLostRequest(t *testing.T) {
	t.Parallel()
	p := newProxy(t, storetest.StartRedis(t), "evalsha")
	store := open(t, p.url())
	warm(t, store)
	p.requests.Store(2)
	if sequence, err := store.Commit(t.Context(), put("request")); err != nil || sequence != 1 {
		t.Errorf("sequence %d, %v", sequence, err)
	}
	p.requests.Store(2)
	if records, err := store.Get(t.Context(), web); err != nil || records[0].Key == "" {
		t.Errorf("records %v, %v", records, err)
	}
}

// A server that is gone after it may have run the script leaves the outcome open.
func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	p := newProxy(t, server, "evalsha")
	store := open(t, p.url())
	warm(t, store)
	p.replies.Store(1 << 40)
	_, err := store.Commit(t.Context(), put("unknown"))
	if !errors.Is(err, admin.ErrOutcomeUnknown) || errors.Is(err, admin.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	// It was made; the same ID tells.
	p.replies.Store(0)
	if sequence, err := store.Commit(t.Context(), put("unknown")); err != nil || sequence != 1 {
		t.Errorf("sequence %d, %v", sequence, err)
	}
}

// A reply that is lost and a server that is gone afterwards: the last error is one
// of dialling, but the change may have been made.
func TestOutcomeUnknownThenDown(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	p := newProxy(t, server, "evalsha")
	store := open(t, p.url())
	warm(t, store)
	p.replies.Store(1)
	p.downAfter(1)
	_, err := store.Commit(t.Context(), put("unknown"))
	if !errors.Is(err, admin.ErrOutcomeUnknown) {
		t.Errorf("error %v", err)
	}
}

func TestDown(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	store := open(t, server.URL())
	warm(t, store)
	cursor := authz.Cursor{}
	waiting := make(chan error)
	go func() {
		_, err := store.Next(t.Context(), location, cursor)
		waiting <- err
	}()
	server.Stop()
	checkUnavailable(t, store)
	if err := <-waiting; !errors.Is(err, admin.ErrUnavailable) {
		t.Errorf("the follower that waited: %v", err)
	}
}

// A store whose server was never there opens, so that a sidecar can start without.
func TestNeverUp(t *testing.T) {
	checkUnavailable(t, open(t, "unix:///nonexistent/socket"))
}

func checkUnavailable(t *testing.T, store *redisstore.Store) {
	t.Helper()
	ctx, node := t.Context(), &adminpb.Node{Name: string(location) + "/nodes/n"}
	for name, call := range map[string]func() error{
		"Get":       func() error { _, err := store.Get(ctx, web); return err },
		"List":      func() error { _, err := store.List(ctx, admin.Query{Collection: "projects/p1/locations"}); return err },
		"Commit":    func() error { _, err := store.Commit(ctx, put("down")); return err },
		"Nodes":     func() error { _, err := store.Nodes(ctx, location); return err },
		"Load":      func() error { _, err := store.Load(ctx, location); return err },
		"Next":      func() error { _, err := store.Next(ctx, location, authz.Cursor{}); return err },
		"Heartbeat": func() error { _, err := store.Heartbeat(ctx, node); return err },
		"Leave":     func() error { return store.Leave(ctx, node.Name) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := call(); !errors.Is(err, admin.ErrUnavailable) || errors.Is(err, admin.ErrOutcomeUnknown) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// A server that halts makes a call fail by the deadline of its context.
func TestHalted(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	store := open(t, server.URL()+"?read_timeout=200ms")
	warm(t, store)
	if err := server.Process().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(t.Context(), put("halted")); !errors.Is(err, admin.ErrOutcomeUnknown) {
		t.Errorf("Commit: %v", err)
	}
	if _, err := store.Get(t.Context(), web); !errors.Is(err, admin.ErrUnavailable) {
		t.Errorf("Get: %v", err)
	}
	if err := server.Process().Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if sequence, err := store.Commit(t.Context(), put("halted")); err != nil || sequence != 1 {
		t.Errorf("the same ID afterwards: %d, %v", sequence, err)
	}
}

// Redis does not undo what a failed script wrote: a key of a wrong type must be
// found before anything is (G-3).
func TestWrongType(t *testing.T) {
	server := storetest.StartRedis(t)
	store, redis := open(t, server.URL()), client(t, server)
	for _, key := range []string{
		"sequence", "index", "versions", "values", "expiries", "done:txn", "changes:" + string(location),
	} {
		t.Run(key, func(t *testing.T) {
			ctx := t.Context()
			if err := redis.FlushAll(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			wrong := "understudy:{p1}:" + key
			if err := redis.SAdd(ctx, wrong, "wrong").Err(); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Commit(ctx, put("txn")); !errors.Is(err, admin.ErrUnavailable) {
				t.Errorf("error %v", err)
			}
			keys, err := redis.Keys(ctx, "*").Result()
			if diff := cmp.Diff([]string{wrong}, keys); err != nil || diff != "" {
				t.Errorf("left behind: %s, %v", diff, err)
			}
		})
	}
}

// A counter that was lost makes no script fail at its end: sequences go on behind
// the stream's last one.
func TestLostCounter(t *testing.T) {
	server := storetest.StartRedis(t)
	store, redis := open(t, server.URL()), client(t, server)
	txn := put("a")
	for range 3 {
		txn.ID, txn.Conditions = txn.ID+"a", nil
		if _, err := store.Commit(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
	if err := redis.Del(t.Context(), "understudy:{p1}:sequence").Err(); err != nil {
		t.Fatal(err)
	}
	txn.ID = "b"
	if sequence, err := store.Commit(t.Context(), txn); err != nil || sequence != 4 {
		t.Errorf("sequence %d, %v", sequence, err)
	}
}

// Scripts that the server has forgotten are sent again.
func TestForgottenScripts(t *testing.T) {
	server := storetest.StartRedis(t)
	store, redis := open(t, server.URL()), client(t, server)
	warm(t, store)
	if err := redis.ScriptFlush(t.Context()).Err(); err != nil {
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
		update, err := two.Next(t.Context(), location, authz.Cursor{})
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
	if update := <-waiting; update.Cursor.Sequence != sequence {
		t.Errorf("the other store follows to %+v instead of %d", update.Cursor, sequence)
	}
}

// A failover to a replica that had not got the last changes: followers are told to
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
		update, err := store.Load(t.Context(), location)
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
		_, err := store.Next(t.Context(), location, lost)
		waiting <- err
	}()
	restore(t, redis, replica)
	if err := <-waiting; !errors.Is(err, authz.ErrTrimmed) {
		t.Errorf("a follower that waited: %v", err)
	}
	head, err := store.Heartbeat(t.Context(), &adminpb.Node{Name: string(location) + "/nodes/n"})
	if err != nil || head != kept {
		t.Errorf("the head is %+v, %v", head, err)
	}
	instead := change("instead")
	if instead.Sequence != lost.Sequence || instead.Nonce == lost.Nonce {
		t.Errorf("%+v came instead of %+v", instead, lost)
	}
	for range 2 {
		if _, err := store.Next(t.Context(), location, lost); !errors.Is(err, authz.ErrTrimmed) {
			t.Errorf("a follower of the lost change: %v", err)
		}
		if update, err := store.Next(t.Context(), location, kept); err != nil || update.Cursor == lost {
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

// What expired long ago is removed from Redis.
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
	if _, err := store.Commit(t.Context(), admin.Txn{ID: "b", Project: "p1"}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"index", "versions", "values", "expiries"} {
		if n, err := redis.Exists(t.Context(), "understudy:{p1}:"+key).Result(); err != nil || n != 0 {
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
	beats := "understudy:{p1}:heartbeats:" + string(location)
	if err := c.ZIncrBy(t.Context(), beats, -3_600_000, string(location)+"/nodes/old").Err(); err != nil {
		t.Fatal(err)
	}
	if reports, err := store.Nodes(t.Context(), location); err != nil || len(reports) != 0 {
		t.Errorf("%d reports, %v", len(reports), err)
	}
	beat("new")
	if n, err := c.HLen(t.Context(), "understudy:{p1}:nodes:"+string(location)).Result(); err != nil || n != 1 {
		t.Errorf("%d reports are stored, %v", n, err)
	}
}

// Closing a store ends those who wait.
func TestClose(t *testing.T) {
	store, err := redisstore.Open(t.Context(), storetest.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error)
	go func() {
		_, err := store.Next(context.WithoutCancel(t.Context()), location, authz.Cursor{})
		waiting <- err
	}()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waiting; !errors.Is(err, admin.ErrUnavailable) {
		t.Errorf("the follower: %v", err)
	}
}

package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"understudy/admin"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	"understudy/authz"
	"understudy/cmd/testkit"
)

// eventually returns when f succeeds.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	testkit.Await(t, what, func() bool { err = f(); return err == nil }, func() any { return err })
}

// startCluster starts a Redis Cluster of two primaries and returns its URL.
func startCluster(t *testing.T) (url string) {
	t.Helper()
	var nodes []*storetest.RedisServer
	for range 2 {
		nodes = append(nodes, storetest.StartRedisTCP(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "60000"))
	}
	joinCluster(t, nodes, nodes[1].Port())
	return "redis+cluster://127.0.0.1:" + nodes[0].Port()
}

// joinCluster makes a Cluster of two servers, of which the second one listens on a port.
func joinCluster(t *testing.T, nodes []*storetest.RedisServer, port string) {
	t.Helper()
	ctx := t.Context()
	one, two := client(t, nodes[0]), client(t, nodes[1])
	for _, assign := range []*redis.Cmd{
		one.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", 0, 8191), two.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", 8192, 16383),
		one.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", 1), two.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", 2),
		one.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", port),
	} {
		if err := assign.Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*redis.Client{one, two} {
		eventually(t, "the cluster is ready", func() error { return clusterReady(ctx, c) })
	}
}

func clusterReady(ctx context.Context, c *redis.Client) error {
	info, err := c.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:2") {
		return errors.New(info)
	}
	return nil
}

// The whole suite through a Redis Cluster: all keys of a script are in one slot.
func TestCluster(t *testing.T) {
	t.Parallel()
	url := startCluster(t)
	eventually(t, "the cluster answers", func() error {
		_, err := open(t, url).Get(t.Context(), web)
		return err
	})
	storetest.Run(t, opener(url), nil)
}

// Behind Sentinels, a store works on through a failover.
func TestSentinel(t *testing.T) {
	t.Parallel()
	// Redis would wait for 5 s for further replicas before it copies itself.
	primary := storetest.StartRedisTCP(t, "--repl-diskless-sync-delay", "0")
	replica := storetest.StartRedisTCP(t, "--replicaof", "127.0.0.1 "+primary.Port())
	// A Sentinel asks a primary for its replicas at once, and then each 10 s.
	eventually(t, "the primary knows the replica", func() error {
		reply, err := client(t, primary).Info(t.Context(), "replication").Result()
		if err == nil && !strings.Contains(reply, "state=online") {
			err = errors.New(reply)
		}
		return err
	})
	// It fails over when it is asked to. What answers late on a busy machine is not down.
	sentinel := storetest.StartSentinel(t, primary, "sentinel down-after-milliseconds main 600000")
	eventually(t, "the sentinel knows the replica", func() error {
		reply, err := client(t, sentinel).Do(t.Context(), "SENTINEL", "REPLICAS", "main").Slice()
		if err == nil && len(reply) != 1 {
			err = errors.New("no replica")
		}
		return err
	})
	sentinels := "redis+sentinel://127.0.0.1:" + sentinel.Port()
	if err := open(t, sentinels+"/other").Probe(t.Context()); !errors.Is(err, redisstore.ErrNoPrimary) {
		t.Errorf("with the name of no primary: %v", err)
	}
	eventually(t, "a store of several Sentinels, the first of which is away", func() error {
		return open(t, "redis+sentinel://127.0.0.1:1,127.0.0.1:"+sentinel.Port()+"/main").Probe(t.Context())
	})
	store := open(t, sentinels+"?master_name=main")
	if _, err := store.Commit(t.Context(), put("before")); err != nil {
		t.Fatal(err)
	}
	// The replica has the functions too.
	sidecar := open(t, "redis+sentinel://127.0.0.1:"+sentinel.Port()+"/main", redisstore.AsSidecar())
	copied := client(t, replica)
	eventually(t, "the replica has the change", func() error {
		return copied.Get(t.Context(), ofProject+"done:before").Err()
	})
	primary.Stop()
	eventually(t, "the sentinel fails over", func() error {
		err := client(t, sentinel).Do(t.Context(), "SENTINEL", "FAILOVER", "main").Err()
		if err != nil && strings.HasPrefix(err.Error(), "INPROG") {
			return nil
		}
		return err
	})
	eventually(t, "the sidecar follows the failover", func() error {
		_, err := sidecar.Load(t.Context(), authz.Scope{Location: location})
		return err
	})
	eventually(t, "the store follows the failover", func() error {
		_, err := store.Commit(t.Context(), admin.Txn{
			ID: "after", Project: "p1", Conditions: []admin.Condition{admin.Exists{Key: web}},
			Writes: []admin.Write{admin.Delete{Key: web}},
		})
		return err
	})
	if records, err := store.Get(t.Context(), web); err != nil || records[0].Key != "" {
		t.Errorf("after the failover: %v, %v", records, err)
	}
}

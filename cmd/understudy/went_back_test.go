package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"understudy/admin/storetest"
	"understudy/cmd/testkit"
	"understudy/cmd/understudy/command"
)

// awaitStale waits until /readyz names the policies of which the store has an older version.
func (r *running) awaitStale(t *testing.T, ids ...string) {
	t.Helper()
	r.awaitReadiness(t, fmt.Sprintf("older in the store: %v", ids), func(ready readiness) bool {
		return slices.Equal(ready.StaleInStore, ids) && ready.StaleCount == len(ids) && (ready.Help != "") == (len(ids) > 0)
	})
}

// commitChange has a policy that allows GET, calls between, and commits an experiment by which it
// allows POST.
func (r *running) commitChange(t *testing.T, between func()) {
	t.Helper()
	r.preview(t)
	r.awaitReadiness(t, "the policy", func(ready readiness) bool { return ready.Policies == 1 })
	r.decides(t, 0, 7)
	between()
	r.commitAnyway(t)
	testkit.Await(t, "the committed policy", func() bool { return r.check(t, "POST") == 0 })
	r.decides(t, 7, 0)
}

// olderDump makes a fleet whose Redis has come back with the policy of before a commit.
func olderDump(t *testing.T) *lostFleet {
	t.Helper()
	dir := t.TempDir()
	f := &lostFleet{redis: storetest.StartRedis(t, "--dir", dir), dir: dir}
	f.live = []*running{f.sidecar(t, "a"), f.sidecar(t, "b")}
	f.live[0].commitChange(t, func() { sendToRedis(t, f.redis, "SAVE") })
	f.live[1].awaitReadiness(t, "the committed policy", func(readiness) bool { return f.live[1].check(t, "POST") == 0 })
	f.redis.Stop()
	f.redis.Restart(t)
	f.wentBack(t)
	return f
}

// wentBack waits until all have noticed. They decide as before.
func (f *lostFleet) wentBack(t *testing.T) {
	t.Helper()
	f.decides(t, 7, 0, func(r *running) { r.awaitStale(t, "shop") })
}

// follow waits until nothing is older in the store, and checks what a GET and a POST get then.
func (f *lostFleet) follow(t *testing.T, get, post int32) {
	t.Helper()
	f.decides(t, get, post, func(r *running) { r.awaitStale(t) })
}

// TestRedisComesBackWithAnOlderDump: what was committed decides on, on sidecars that run and on one
// that starts, until it is stored again.
func TestRedisComesBackWithAnOlderDump(t *testing.T) {
	t.Parallel()
	f := olderDump(t)
	if _, metrics := f.live[0].call(t, "health", "GET", "/metrics", ""); !strings.Contains(metrics, "\nunderstudy_store_stale_policies 1\n") {
		t.Error("there is no metric")
	}
	if code, body := f.live[0].call(t, "admin", "GET", strings.TrimSuffix(policies, "policies")+"nodes", ""); code != 200 || !strings.Contains(body, "POLICY_STALE_IN_STORE") {
		t.Errorf("the nodes are %d %s", code, body)
	}
	copyFile(t, filepath.Join(f.dir, "a"), filepath.Join(f.dir, "c"))
	f.live = append(f.live, f.sidecar(t, "c"))
	f.wentBack(t)
	f.appliesWhatIsStored(t)
	f.restore(t, command.ExitUsage, "exclude each other", "--newer", "--accept")
	f.restore(t, command.ExitOK, "nothing is missing", "--missing")
	f.restore(t, command.ExitOK, "would be stored again: 1 policy", "--newer", "--validate-only")
	f.wentBack(t)
	f.restore(t, command.ExitOK, "stored again: 1 policy", "--newer")
	f.follow(t, 7, 0)
	f.restore(t, command.ExitOK, "no policy of "+lostLocation+" is older", "--newer")
}

// appliesWhatIsStored applies the older version that the store has, which changes nothing there: no sidecar follows it, and
// the command says so.
func (f *lostFleet) appliesWhatIsStored(t *testing.T) {
	t.Helper()
	admin := f.live[0].bound["admin"]
	_, stored, _ := runCommand(t, "get", "shop", "--location", lostLocation, "--admin", admin)
	file := filepath.Join(t.TempDir(), "shop.json")
	if err := os.WriteFile(file, []byte(stored), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := runCommand(t, "apply", "shop", "-f", file, "--location", lostLocation, "--admin", admin)
	if code != command.ExitFailure || !strings.Contains(out, "unchanged") || !strings.Contains(errs, "restore --accept") {
		t.Errorf("applying what is stored ends with %d: %s%s", code, out, errs)
	}
	f.wentBack(t)
}

// storedEtag returns the etag of the policy that the store has.
func (f *lostFleet) storedEtag(t *testing.T) string {
	t.Helper()
	_, body := f.live[0].call(t, "admin", "GET", policies+"/shop", "")
	var stored struct{ Etag string }
	if err := json.Unmarshal([]byte(body), &stored); err != nil || stored.Etag == "" {
		t.Fatalf("%v: %s", err, body)
	}
	return stored.Etag
}

// TestAnOlderDumpIsAccepted: somebody wanted the older data.
func TestAnOlderDumpIsAccepted(t *testing.T) {
	t.Parallel()
	f := olderDump(t)
	f.restore(t, command.ExitOK, f.storedEtag(t), "--accept", "--validate-only")
	f.restore(t, command.ExitOK, "stored again as the store has them: 1 policy", "--accept")
	f.follow(t, 0, 7)
}

// TestAnOlderDumpThatIsChangedIsFollowed: a change of the policy is a decision, too.
func TestAnOlderDumpThatIsChangedIsFollowed(t *testing.T) {
	t.Parallel()
	f := olderDump(t)
	f.live[0].commitAnyway(t)
	f.follow(t, 7, 0)
}

// laggingReplica is a Redis with a replica that a Sentinel promotes without the last changes.
type laggingReplica struct{ primary, replica, sentinel *storetest.RedisServer }

func newLaggingReplica(t *testing.T) laggingReplica {
	t.Helper()
	l := laggingReplica{primary: storetest.StartRedisTCP(t, "--repl-diskless-sync-delay", "0")}
	l.replica = storetest.StartRedisTCP(t, "--replicaof", "127.0.0.1 "+l.primary.Port())
	awaitInfo(t, l.primary, "state=online")
	// However slow the machine is, the replica is neither set right nor too old to be promoted.
	l.sentinel = storetest.StartSentinel(t, l.primary, "sentinel down-after-milliseconds main 600000", "sentinel failover-timeout main 6000000")
	testkit.Await(t, "the sentinel knows the replica", func() bool {
		return strings.HasPrefix(sendToRedis(t, l.sentinel, "SENTINEL REPLICAS main"), "*1")
	})
	return l
}

func (l laggingReplica) url() string {
	return "redis+sentinel://127.0.0.1:" + l.sentinel.Port() + "/main"
}

// cutOff cuts the replica off as soon as it has all that was written until now. It cannot come back.
func (l laggingReplica) cutOff(t *testing.T) {
	t.Helper()
	testkit.Await(t, "the replica has the policy", func() bool {
		return sendToRedis(t, l.replica, "EXISTS understudy:{p1}:sequence") == ":1\r\n" && sameOffset(t, l.primary, l.replica)
	})
	sendToRedis(t, l.primary, "ACL SETUSER default -psync -sync -replconf")
	sendToRedis(t, l.primary, "CLIENT KILL TYPE replica")
	awaitInfo(t, l.replica, "master_link_status:down")
}

// failOver makes the replica the primary.
func (l laggingReplica) failOver(t *testing.T) {
	t.Helper()
	l.primary.Stop()
	var reply string
	testkit.Await(t, "the sentinel fails over", func() bool { // it may have heard of the replica too long ago
		reply, _ = exchangeWithRedis(t, l.sentinel, "SENTINEL FAILOVER main")
		return reply == "+OK\r\n"
	}, func() any { return reply })
}

// TestALaggingReplicaBecomesPrimary: a Sentinel promotes a replica that never had the commit.
func TestALaggingReplicaBecomesPrimary(t *testing.T) {
	t.Parallel()
	l := newLaggingReplica(t)
	r := startServer(t, func(c *config) { c.Store, c.SnapshotFile = l.url(), filepath.Join(t.TempDir(), "snapshot") })
	r.commitChange(t, func() { l.cutOff(t) })
	l.failOver(t)
	r.awaitStale(t, "shop")
	r.decides(t, 7, 0)
}

// TestABoltFileIsReplacedByAnOlderCopy: without its snapshot file, and then with it.
func TestABoltFileIsReplacedByAnOlderCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, snapshot := filepath.Join(dir, "u.db"), filepath.Join(dir, "snapshot")
	start := func() *running {
		return startServer(t, func(c *config) { c.Store, c.SnapshotFile = "bolt://"+file, snapshot })
	}
	r := start()
	r.preview(t)
	r.decides(t, 0, 7)
	r.end()
	copyFile(t, file, file+".older")
	copyFile(t, snapshot, snapshot+".older")
	r = start()
	r.commitAnyway(t)
	testkit.Await(t, "the committed policy", func() bool { return r.check(t, "POST") == 0 })
	r.end()

	copyFile(t, file+".older", file)
	r = start()
	r.awaitStale(t, "shop")
	r.decides(t, 7, 0)
	r.end()
	if code, out, errs := runCommand(t, "restore", "--newer", "--store", "bolt://"+file, "--location", lostLocation, "--snapshot-file", snapshot); code != command.ExitOK || !strings.Contains(out, "stored again: 1 policy") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	r = start()
	r.awaitStale(t)
	r.decides(t, 7, 0)
	r.end()

	copyFile(t, file+".older", file)
	copyFile(t, snapshot+".older", snapshot)
	r = start()
	r.awaitStale(t)
	r.decides(t, 0, 7)
}

// replication is what a Redis says about it.
func replication(t *testing.T, server *storetest.RedisServer) string {
	t.Helper()
	_, text := askRedis(t, server, "INFO replication")
	return text
}

func awaitInfo(t *testing.T, server *storetest.RedisServer, want string) {
	t.Helper()
	testkit.Await(t, "redis-server has "+want, func() bool { return strings.Contains(replication(t, server), want) })
}

// sameOffset reports whether a replica has all that its primary has sent.
func sameOffset(t *testing.T, primary, replica *storetest.RedisServer) bool {
	t.Helper()
	return offset(replication(t, primary)) == offset(replication(t, replica))
}

func offset(replication string) string {
	_, after, _ := strings.Cut(replication, "master_repl_offset:")
	value, _, _ := strings.Cut(after, "\r\n")
	return value
}

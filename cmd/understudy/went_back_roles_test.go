package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"understudy/admin/storetest"
	"understudy/authz/diagnostics/logtest"
	"understudy/cmd/testkit"
	"understudy/cmd/understudy/command"
)

const setRoles = "/v1/projects/p1/locations/l1:setIamPolicy"

// staff is who calls an admin API: root owns everything by the configuration, and bob has the role
// of an editor that is taken away.
type staff struct {
	t      *testing.T
	tokens map[string]string
	files  []string
}

func newStaff(t *testing.T) staff {
	t.Helper()
	s := staff{t: t, tokens: make(map[string]string)}
	for _, name := range []string{"root", "bob"} {
		token, file := newToken(t, name)
		s.tokens[name], s.files = token, append(s.files, file)
	}
	return s
}

// start starts a server that knows them.
func (s staff) start(change func(*config)) *running {
	s.t.Helper()
	return startServer(s.t, s.with(change))
}

func (s staff) with(change func(*config)) func(*config) {
	return func(c *config) {
		c.adminTokenFiles, c.owners = s.files, []string{"token:root"}
		change(c)
	}
}

// call makes a call of somebody.
func (s staff) call(r *running, who, method, path, body string) (code int, answer string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+r.bound["admin"]+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.tokens[who])
	return answerOf(s.t, request)
}

// create creates a policy as somebody, and expects an answer.
func (s staff) create(r *running, who, id string, code int, says string) {
	s.t.Helper()
	if got, answer := s.call(r, who, "POST", policies+"?policyId="+id, "{}"); got != code || !strings.Contains(answer, says) {
		s.t.Errorf("%s creates %s and gets %d %s; want %d %q", who, id, got, answer, code, says)
	}
}

// setRoles sets who has which roles.
func (s staff) setRoles(r *running, roles map[string][]string) {
	s.t.Helper()
	if code, answer := s.call(r, "root", "POST", setRoles, bindingsOf(s.t, roles)); code != 200 {
		s.t.Fatalf("binding roles: %d %s", code, answer)
	}
}

// revoke has bob lose his role after what is between, which may start the server again.
func (s staff) revoke(r *running, between func(*running) *running) {
	s.t.Helper()
	s.setRoles(r, map[string][]string{"editor": {"token:bob"}})
	s.create(r, "bob", "one", 200, "")
	r = between(r)
	s.setRoles(r, nil)
	s.create(r, "bob", "two", 403, "PERMISSION_DENIED")
}

// isBack waits until a server knows that the store has gone back: bob has his role again, and
// changes nothing.
func (s staff) isBack(r *running) {
	s.t.Helper()
	r.awaitReadiness(s.t, "the store has gone back", func(ready readiness) bool {
		return strings.Contains(ready.StoreWentBack, "understudy restore --accept")
	})
	s.create(r, "bob", "two", 503, "STORE_WENT_BACK")
	if code, answer := s.call(r, "bob", "GET", policies, ""); code != 200 {
		s.t.Errorf("bob reads and gets %d %s", code, answer)
	}
}

// isAccepted waits until a server takes the store as it is.
func (s staff) isAccepted(r *running, id string) {
	s.t.Helper()
	r.awaitReadiness(s.t, "the store counts", func(ready readiness) bool { return ready.StoreWentBack == "" })
	s.create(r, "bob", id, 200, "")
}

// restoreAt runs the command, which has to succeed and to say something.
func restoreAt(t *testing.T, store, snapshot, says string, flags ...string) {
	t.Helper()
	code, out, errs := runCommand(t, append([]string{"restore", "--store", store, "--location", lostLocation, "--snapshot-file", snapshot}, flags...)...)
	if code != command.ExitOK || !strings.Contains(out, says) {
		t.Errorf("restore %v ends with %d: %s%s; want %q", flags, code, out, errs, says)
	}
}

// TestARoleThatWasTakenAwayComesBackWithAnOlderDump: only owners change something, on a server that has run all
// the time and on one that starts, until the dump is accepted.
func TestARoleThatWasTakenAwayComesBackWithAnOlderDump(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), newStaff(t)
	redis := storetest.StartRedis(t, "--dir", dir)
	on := func(node string) func(*config) {
		return func(c *config) { c.Store, c.node, c.SnapshotFile = redis.URL(), node, filepath.Join(dir, node) }
	}
	a := s.start(on("a"))
	s.revoke(a, func(a *running) *running { sendToRedis(t, redis, "SAVE"); return a })
	s.awaitWatermark(a, redis)
	redis.Stop()
	redis.Restart(t)

	s.isBack(a)
	s.create(a, "root", "three", 200, "")
	s.create(a, "bob", "four", 503, "STORE_WENT_BACK")
	if _, metrics := a.call(t, "health", "GET", "/metrics", ""); !strings.Contains(metrics, "\nunderstudy_store_went_back 1\n") {
		t.Error("there is no metric")
	}
	b := s.start(on("b"))
	s.isBack(b)
	log := &logtest.Buffer{}
	c := startServerWithLog(t, log, func(c *config) { on("c")(c); c.enable = []string{"authz"} })
	c.awaitReadiness(t, "a sidecar hears it of others", func(ready readiness) bool { return ready.StoreWentBack != "" })
	if n := strings.Count(log.String(), "sidecars have seen later changes than it has"); n != 1 {
		t.Errorf("the log says it %d times: %s", n, log)
	}

	restoreAt(t, redis.URL(), filepath.Join(dir, "a"), "would count as the store has them", "--accept", "--validate-only")
	restoreAt(t, redis.URL(), filepath.Join(dir, "a"), "nothing is missing", "--missing")
	s.isBack(a)
	restoreAt(t, redis.URL(), filepath.Join(dir, "a"), "bindings and configuration count as the store has them", "--accept")
	s.isAccepted(a, "five")
	s.isAccepted(b, "six")
	c.awaitReadiness(t, "the store counts", func(ready readiness) bool { return ready.StoreWentBack == "" })
}

// awaitWatermark waits until the sidecar of a server reports the last change.
func (s staff) awaitWatermark(r *running, redis *storetest.RedisServer) {
	s.t.Helper()
	_, watermark := askRedis(s.t, redis, "GET understudy:{p1}:watermark")
	var nodes string
	testkit.Await(s.t, "a node with the watermark "+watermark, func() bool {
		_, nodes = s.call(r, "root", "GET", "/v1/projects/p1/locations/l1/nodes", "")
		return strings.Contains(nodes, `"watermark":"`+watermark+`"`)
	}, func() any { return nodes })
}

// awaitWatermarkSince waits until the sidecar of a server reports a change that was made at a time, in milliseconds, or
// later.
func (s staff) awaitWatermarkSince(r *running, begun int64) {
	s.t.Helper()
	var found struct{ Nodes []struct{ Watermark string } }
	testkit.Await(s.t, "a node with a later watermark", func() bool {
		_, answer := s.call(r, "root", "GET", "/v1/projects/p1/locations/l1/nodes", "")
		if json.Unmarshal([]byte(answer), &found) != nil || len(found.Nodes) != 1 {
			return false
		}
		watermark, err := strconv.ParseInt(found.Nodes[0].Watermark, 10, 64)
		return err == nil && watermark >= begun
	}, func() any { return found })
}

// TestARoleThatWasTakenAwayComesBackWithALaggingReplica: the process that took it away knows.
func TestARoleThatWasTakenAwayComesBackWithALaggingReplica(t *testing.T) {
	t.Parallel()
	l, s := newLaggingReplica(t), newStaff(t)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	r := s.start(func(c *config) { c.Store, c.SnapshotFile = l.url(), snapshot })
	s.revoke(r, func(r *running) *running { l.cutOff(t); return r })
	l.failOver(t)
	s.isBack(r)
	restoreAt(t, l.url(), snapshot, "bindings and configuration count as the store has them", "--newer")
	s.isAccepted(r, "three")
}

// TestARoleThatWasTakenAwayComesBackWithACopyOfTheFile: the snapshot file knows, unless it was
// replaced, too.
func TestARoleThatWasTakenAwayComesBackWithACopyOfTheFile(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), newStaff(t)
	file, snapshot := filepath.Join(dir, "u.db"), filepath.Join(dir, "snapshot")
	start := func() *running {
		return s.start(func(c *config) { c.Store, c.SnapshotFile = "bolt://"+file, snapshot })
	}
	var r *running
	var begun int64
	s.revoke(start(), func(before *running) *running {
		before.end()
		copyFile(t, file, file+".older")
		copyFile(t, snapshot, snapshot+".older")
		r, begun = start(), time.Now().UnixMilli()
		return r
	})
	// On a busy machine a sidecar that ends may have no time left to ask for it.
	s.awaitWatermarkSince(r, begun)
	r.end()
	copyFile(t, file+".older", file)
	r = start()
	s.isBack(r)
	r.end()
	restoreAt(t, "bolt://"+file, snapshot, "bindings and configuration count as the store has them", "--accept")
	r = start()
	s.isAccepted(r, "three")
	r.end()

	copyFile(t, file+".older", file)
	copyFile(t, snapshot+".older", snapshot)
	r = start()
	s.isAccepted(r, "four")
}

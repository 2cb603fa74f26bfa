package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"understudy/admin/storetest"
)

// redisUsers are the users of Redis that are shipped.
const redisUsers = "../../deploy/redis/users.conf"

// TestASidecarHasAUserOfItsOwn runs a control plane and sidecars, each with its user of
// Redis: a sidecar starts, follows, reports itself and publishes what it has counted, loses
// its connections and Redis its scripts, and starts again without its snapshot file. One
// that serves authz alone has no admin port.
func TestASidecarHasAUserOfItsOwn(t *testing.T) {
	redis := storetest.StartRedis(t)
	for line := range strings.Lines(storetest.RedisUsers(t, redisUsers)) {
		if user, found := strings.CutPrefix(line, "user understudy"); found {
			tellRedis(t, redis, "ACL SETUSER understudy"+quoteSelector(strings.TrimRight(user, "\n")))
		}
	}
	control := startServer(t, func(c *config) {
		c.Store, c.enable = redis.URLOf(storetest.ControlUser, storetest.ControlPassword), []string{"admin"}
	})
	control.preview(t)
	sidecar := func(node string) func(*config) {
		return func(c *config) {
			c.Store, c.enable, c.node = redis.URLOf(storetest.SidecarUser, storetest.SidecarPassword), []string{"authz"}, node
			c.SnapshotFile = filepath.Join(t.TempDir(), "snapshot")
		}
	}
	first := startServer(t, sidecar("first"))
	first.decidesWhenReady(t, 0, 7)
	control.awaitText(t, policies+"/shop/experiments/e1/report", `"requestCount":"2"`)
	if addr, open := first.bound["admin"]; open {
		t.Errorf("a sidecar that serves authz alone has an admin port: %s", addr)
	}

	tellRedis(t, redis, "SCRIPT FLUSH")
	tellRedis(t, redis, "CLIENT KILL USER "+storetest.SidecarUser)
	first.decides(t, 0, 7)
	control.awaitText(t, policies+"/shop/experiments/e1/report", `"requestCount":"4"`)
	second := startServer(t, sidecar("second"))
	second.decidesWhenReady(t, 0, 7)
	control.awaitText(t, "/v1/projects/p1/locations/l1/nodes", "/nodes/second")
	control.commitAnyway(t)
	for _, r := range []*running{first, second} {
		r.awaitDecision(t, "POST", 0)
		r.decides(t, 7, 0)
		if _, ready := r.readiness(t); ready.StoreError != "" {
			t.Errorf("/readyz says %+v", ready)
		}
	}
}

// commitAnyway commits the experiment of preview.
func (r *running) commitAnyway(t *testing.T) {
	t.Helper()
	const experiment = policies + "/shop/experiments/e1"
	etags := regexp.MustCompile(`"etag":("(?:[^"\\]|\\.)*")`)
	_, live := r.call(t, "admin", "GET", policies+"/shop", "")
	_, tried := r.call(t, "admin", "GET", experiment, "")
	of, parent := etags.FindStringSubmatch(tried), etags.FindStringSubmatch(live)
	if of == nil || parent == nil {
		t.Fatalf("there is no etag in %s or %s", live, tried)
	}
	body := `{"etag":` + of[1] + `,"parentEtag":` + parent[1] + `}`
	if code, body := r.call(t, "admin", "POST", experiment+":commit", body); code != 200 {
		t.Fatalf("the commit is answered with %d: %s", code, body)
	}
}

// awaitText waits until an answer of the admin API has a text in it.
func (r *running) awaitText(t *testing.T, path, want string) {
	t.Helper()
	for deadline := time.Now().Add(scriptTime); ; {
		_, body := r.call(t, "admin", "GET", path, "")
		if strings.Contains(body, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not say %s: %s", path, want, body)
		}
	}
}

// awaitDecision waits until a sidecar answers with a code.
func (r *running) awaitDecision(t *testing.T, method string, want int32) {
	t.Helper()
	for deadline := time.Now().Add(scriptTime); r.check(t, method) != want; {
		if time.Now().After(deadline) {
			t.Fatalf("%s is never answered with %d", method, want)
		}
	}
}

// quoteSelector quotes the rules in parentheses, which are one argument.
func quoteSelector(rules string) string {
	before, selector, found := strings.Cut(rules, " (")
	if !found {
		return rules
	}
	return before + ` "(` + selector + `"`
}

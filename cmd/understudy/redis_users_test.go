package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	"understudy/authz"
	"understudy/authz/diagnostics/logtest"
	"understudy/cmd/testkit"
	"understudy/cmd/understudy/storage"
)

// redisUsers are the users of Redis that are shipped.
const redisUsers = "../../deploy/redis/users.conf"

// TestASidecarHasAUserOfItsOwn runs a control plane and sidecars, each with its user of
// Redis: a sidecar starts, follows, reports itself and publishes what it has counted, loses
// its connections and Redis its functions, and starts again without its snapshot file. One
// that serves authz alone has no admin port.
func TestASidecarHasAUserOfItsOwn(t *testing.T) {
	t.Parallel()
	redis := startRedisWithUsers(t)
	control := startServer(t, controlOf(t, redis))
	control.preview(t)
	sidecar := func(node string) func(*config) { return sidecarOf(t, redis, node) }
	first := startServer(t, sidecar("first"))
	first.decidesWhenReady(t, 0, 7)
	control.awaitText(t, policies+"/shop/experiments/e1/report", `"requestCount":"2"`)
	if addr, open := first.bound["admin"]; open {
		t.Errorf("a sidecar that serves authz alone has an admin port: %s", addr)
	}

	sendToRedis(t, redis, "FUNCTION FLUSH")
	sendToRedis(t, redis, "CLIENT KILL USER "+storetest.SidecarUser)
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

// TestASidecarWaitsForTheControlPlane that loads the functions: until then it is not ready, and
// says why; and a control plane that nobody asks loads them again where Redis has lost them.
func TestASidecarWaitsForTheControlPlane(t *testing.T) {
	t.Parallel()
	redis, log := startRedisWithUsers(t), &logtest.Buffer{}
	r := startServerWithLog(t, log, sidecarOf(t, redis, "first"))
	const says = "a server of the admin API (--enable admin) of the same version loads them"
	testkit.Await(t, "/readyz and the log say what is missing", func() bool {
		code, ready := r.readiness(t)
		return code == 503 && strings.Contains(ready.StoreError, says) && strings.Contains(log.String(), says)
	}, func() any { return log })
	startServer(t, controlOf(t, redis))
	r.awaitReadiness(t, "the functions", func(ready readiness) bool { return ready.StoreError == "" })
	sendToRedis(t, redis, "FUNCTION FLUSH")
	testkit.Await(t, "the functions are loaded again", func() bool { return sendToRedis(t, redis, "FUNCTION LIST") != "*0\r\n" })
	r.awaitReadiness(t, "the functions again", func(ready readiness) bool { return ready.StoreError == "" })
}

// TestALibraryThatNoNodeCalls is named by the control plane, with the command that removes it.
func TestALibraryThatNoNodeCalls(t *testing.T) {
	t.Parallel()
	redis, log := startRedisWithUsers(t), &logtest.Buffer{}
	sendToRedis(t, redis, `FUNCTION LOAD "#!lua name=understudy_000000000000\nredis.register_function('understudy_000000000000_read', function() return 1 end)"`)
	startServerWithLog(t, log, controlOf(t, redis))
	testkit.Await(t, "the log names the command", func() bool {
		return strings.Contains(log.String(), "FUNCTION DELETE understudy_000000000000")
	}, func() any { return log })
}

// startRedisWithUsers starts a Redis with the users that are shipped, and with the default
// user for the test.
func startRedisWithUsers(t *testing.T) *storetest.RedisServer {
	t.Helper()
	redis := storetest.StartRedis(t)
	for line := range strings.Lines(storetest.RedisUsers(t, redisUsers)) {
		if user, found := strings.CutPrefix(line, "user understudy"); found {
			sendToRedis(t, redis, "ACL SETUSER understudy"+quoteSelector(strings.TrimRight(user, "\n")))
		}
	}
	return redis
}

// controlOf makes a server the control plane, with its user of Redis.
func controlOf(t *testing.T, redis *storetest.RedisServer) func(*config) {
	return func(c *config) {
		c.Store, c.PasswordFile = withPasswordFile(t, redis, storetest.ControlUser, storetest.ControlPassword)
		c.enable = []string{"admin"}
	}
}

// sidecarOf makes a server a sidecar alone, with its user of Redis.
func sidecarOf(t *testing.T, redis *storetest.RedisServer, node string) func(*config) {
	return func(c *config) {
		c.Store, c.PasswordFile = withPasswordFile(t, redis, storetest.SidecarUser, storetest.SidecarPassword)
		c.enable, c.node, c.SnapshotFile = []string{"authz"}, node, filepath.Join(t.TempDir(), "snapshot")
	}
}

// withPasswordFile is the URL of a user, and a file with his password.
func withPasswordFile(t *testing.T, redis *storetest.RedisServer, user, password string) (url, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(redis.URL(), "://", "://"+user+"@", 1), file
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
	var body string
	testkit.Await(t, path+" says "+want, func() bool {
		_, body = r.call(t, "admin", "GET", path, "")
		return strings.Contains(body, want)
	}, func() any { return body })
}

// awaitDecision waits until a sidecar answers with a code.
func (r *running) awaitDecision(t *testing.T, method string, want int32) {
	t.Helper()
	testkit.Await(t, fmt.Sprintf("%s is answered with %d", method, want), func() bool { return r.check(t, method) == want })
}

// quoteSelector quotes the rules in parentheses, which are one argument.
func quoteSelector(rules string) string {
	before, selector, found := strings.Cut(rules, " (")
	if !found {
		return rules
	}
	return before + ` "(` + selector + `"`
}

// TestUsersAreMadeAsDocumented runs the commands of deploy/redis.md that make users.conf: a
// Redis takes it, and the users work with the passwords that the commands have written.
func TestUsersAreMadeAsDocumented(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../deploy/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	deploy, err := filepath.Abs("../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(deploy, filepath.Join(folder, "deploy")); err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(string(readme), -1) {
		if strings.Contains(block[1], "deploy/redis/users.conf") {
			commands = append(commands, block[1])
		}
	}
	if len(commands) != 2 {
		t.Fatalf("%d blocks make users.conf, want 2", len(commands))
	}
	shell := exec.Command("sh", "-ec", strings.Join(commands, ""))
	shell.Dir = folder
	if out, err := testkit.CombinedOutput(shell); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	redis := storetest.StartRedis(t, "--include", filepath.Join(folder, "users.conf"))
	open := func(user, file string, sidecar bool) storage.Store {
		st, err := storage.Open(storage.Config{
			Store: strings.Replace(storetest.Patient(redis.URL()), "://", "://"+user+"@", 1), PasswordFile: filepath.Join(folder, file+".password"), Sidecar: sidecar,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		return st
	}
	control := open(storetest.ControlUser, "control", false)
	local, shop := open(storetest.SidecarUser, "sidecar", true), open(storetest.SidecarUser+"-shop", "shop", true)
	testkit.Await(t, "the functions are loaded", func() bool {
		if err := storage.Refusal(t.Context(), control); err != nil {
			t.Fatal(err)
		}
		_, err := local.Load(t.Context(), authz.Scope{Location: "projects/default/locations/local"})
		return err == nil || errors.Is(err, redisstore.ErrRefused)
	})
	for location, may := range map[authz.Location][2]storage.Store{
		"projects/default/locations/local": {local, shop}, "projects/default/locations/shop": {shop, local},
	} {
		if _, err := may[0].Load(t.Context(), authz.Scope{Location: location}); err != nil {
			t.Errorf("%s is not loaded by its own user: %v", location, err)
		}
		if _, err := may[1].Load(t.Context(), authz.Scope{Location: location}); !errors.Is(err, redisstore.ErrRefused) {
			t.Errorf("%s is loaded by the user of another location: %v", location, err)
		}
	}
}

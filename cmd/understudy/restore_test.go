package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"understudy/admin/storetest"
	"understudy/cmd/testkit"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/demo"
	"understudy/cmd/understudy/storage"
)

const lostLocation = "projects/p1/locations/l1"

// runCommand runs a command of the binary and returns exit code, output and errors.
func runCommand(t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// sendToRedis sends one command and returns the first line of the reply.
func sendToRedis(t *testing.T, server *storetest.RedisServer, command string) string {
	t.Helper()
	line, _ := askRedis(t, server, command)
	return line
}

// askRedis sends one command and returns the first line of the reply, and what follows if the
// reply is a text.
func askRedis(t *testing.T, server *storetest.RedisServer, command string) (line, text string) {
	t.Helper()
	if line, text = exchangeWithRedis(t, server, command); strings.HasPrefix(line, "-") {
		t.Fatalf("%s: %s", command, line)
	}
	return line, text
}

// exchangeWithRedis is askRedis of a command that may have an error, which begins with "-".
func exchangeWithRedis(t *testing.T, server *storetest.RedisServer, command string) (line, text string) {
	t.Helper()
	network, address := server.Address()
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
		t.Fatal(err)
	}
	reply := bufio.NewReader(conn)
	line, err = reply.ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	var length int
	if _, err := fmt.Sscanf(line, "$%d", &length); err != nil {
		return line, ""
	}
	content := make([]byte, length)
	if _, err := io.ReadFull(reply, content); err != nil {
		t.Fatal(err)
	}
	return line, string(content)
}

func (r *running) readiness(t *testing.T) (int, readiness) {
	t.Helper()
	code, body := r.call(t, "health", "GET", "/readyz", "")
	var ready readiness
	if err := json.Unmarshal([]byte(body), &ready); err != nil {
		t.Fatal(err)
	}
	return code, ready
}

// awaitReadiness waits until /readyz, which has to be good all the time, is as wanted.
func (r *running) awaitReadiness(t *testing.T, what string, like func(readiness) bool) {
	t.Helper()
	var code int
	var ready readiness
	testkit.Await(t, what, func() bool {
		code, ready = r.readiness(t)
		return code == 200 && like(ready)
	}, func() any { return fmt.Sprintf("/readyz is %d %+v", code, ready) })
}

func (r *running) awaitMissing(t *testing.T, ids ...string) {
	t.Helper()
	r.awaitReadiness(t, fmt.Sprintf("missing %v", ids), func(ready readiness) bool {
		return slices.Equal(ready.MissingPolicies, ids) && ready.MissingCount == len(ids) && ready.StoreWentBack == "" && (ready.Help != "") == (len(ids) > 0)
	})
}

// decides expects the answers to GET and POST, 0 for allowed and 7 for denied.
func (r *running) decides(t *testing.T, get, post int32) {
	t.Helper()
	for method, want := range map[string]int32{"GET": get, "POST": post} {
		if got := r.check(t, method); got != want {
			t.Errorf("%s is answered with %d, want %d", method, got, want)
		}
	}
}

// lostFleet is sidecars on one Redis that loses everything, each with a snapshot file in one
// folder. A restore is by the file of the first.
type lostFleet struct {
	redis *storetest.RedisServer
	dir   string
	// live are those that have the policies when the Redis loses them.
	live []*running
}

// sidecar starts one. The default decision would open what the policy denies.
func (f *lostFleet) sidecar(t *testing.T, node string) *running {
	t.Helper()
	r := startServer(t, func(c *config) {
		c.Store, c.node, c.SnapshotFile, c.defaultDecision = f.redis.URL(), node, filepath.Join(f.dir, node), "allow"
	})
	r.awaitReadiness(t, "a start", func(readiness) bool { return true })
	return r
}

// restore runs the command, which has to end with a code and to say something.
func (f *lostFleet) restore(t *testing.T, code int, says string, flags ...string) {
	t.Helper()
	got, out, errs := runCommand(t, append([]string{
		"restore", "--store", f.redis.URL(), "--location", lostLocation, "--snapshot-file", filepath.Join(f.dir, "a"),
	}, flags...)...)
	if got != code || !strings.Contains(out+errs, says) {
		t.Errorf("restore %v ends with %d: %s%s; want %d and %q", flags, got, out, errs, code, says)
	}
}

// lose empties the Redis, and waits until all have noticed. They decide as before.
func (f *lostFleet) lose(t *testing.T) {
	t.Helper()
	sendToRedis(t, f.redis, "FLUSHALL")
	f.decides(t, 0, 7, func(r *running) { r.awaitMissing(t, "shop") })
}

// decides waits for something on all that are there, and checks what a GET and a POST get then.
func (f *lostFleet) decides(t *testing.T, get, post int32, await func(*running)) {
	t.Helper()
	for _, r := range f.live {
		await(r)
		r.decides(t, get, post)
	}
}

// restored waits until nothing is missing, and checks what a GET and a POST get then.
func (f *lostFleet) restored(t *testing.T, get, post int32) {
	t.Helper()
	f.decides(t, get, post, func(r *running) { r.awaitMissing(t) })
}

// TestRedisComesBackEmpty loses everything under two sidecars, restores it from the
// snapshot file of one, loses it again and accepts that; a third sidecar was away
// meanwhile.
func TestRedisComesBackEmpty(t *testing.T) {
	t.Parallel()
	f := &lostFleet{redis: storetest.StartRedis(t), dir: t.TempDir()}
	f.live = []*running{f.sidecar(t, "a"), f.sidecar(t, "b")}
	f.live[0].preview(t)
	f.lose(t)
	if _, metrics := f.live[0].call(t, "health", "GET", "/metrics", ""); !strings.Contains(metrics, "\nunderstudy_store_missing_policies ") {
		t.Error("there is no metric")
	}
	f.restoreAll(t)
	copyFile(t, filepath.Join(f.dir, "a"), filepath.Join(f.dir, "c"))
	f.lose(t)
	f.beginAgain(t)
	f.acceptLoss(t)
}

// restoreAll stores again what is lost, after a look at what would happen.
func (f *lostFleet) restoreAll(t *testing.T) {
	t.Helper()
	f.restore(t, command.ExitOK, "would be stored again: 1 policy", "--validate-only")
	if code, body := f.live[0].call(t, "admin", "GET", policies, ""); code != 200 || strings.Contains(body, "shop") {
		t.Errorf("--validate-only changed something: %d %s", code, body)
	}
	f.restore(t, command.ExitOK, "stored again: 1 policy")
	f.restored(t, 0, 7)
	if code, body := f.live[0].call(t, "admin", "GET", policies+"/shop/experiments/e1", ""); code != 200 || !strings.Contains(body, `"ACTIVE"`) {
		t.Errorf("the experiment is %d %s", code, body)
	}
	f.restore(t, command.ExitFailure, "--missing") // over what is there
}

// beginAgain makes a new history, whose changes have the numbers of the old one, and more.
// What is missing stays so, also for a sidecar that was away.
func (f *lostFleet) beginAgain(t *testing.T) {
	t.Helper()
	for i := range 4 {
		if code, body := f.live[0].call(t, "admin", "POST", fmt.Sprintf("%s?policyId=new%d", policies, i), "{}"); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
	}
	for _, r := range f.live {
		r.awaitReadiness(t, "the new policies beside the missing one", func(ready readiness) bool {
			return ready.Policies == 5 && slices.Equal(ready.MissingPolicies, []string{"shop"})
		})
	}
	t.Run("a third one is there too", func(t *testing.T) {
		f.sidecar(t, "c").awaitMissing(t, "shop")
	})
}

// acceptLoss deletes what is missing, for those that are there and for one that comes back.
func (f *lostFleet) acceptLoss(t *testing.T) {
	t.Helper()
	f.restore(t, command.ExitOK, "deleted: 1 policy", "--empty")
	f.restored(t, 0, 0)
	c := f.sidecar(t, "c")
	c.awaitMissing(t)
	c.decides(t, 0, 0)
	f.restore(t, command.ExitOK, "nothing is missing", "--empty")
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestABoltFileIsLost removes the file of a stopped server; the snapshot is next to it.
func TestABoltFileIsLost(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "understudy.db")
	store := []string{"--store", storage.BoltScheme + file, "--location", lostLocation}
	server := func(t *testing.T) *running {
		r := startServer(t, func(c *config) {
			c.Store, c.defaultDecision = storage.BoltScheme+file, "allow"
			c.SnapshotFile = c.DefaultSnapshotFile()
		})
		r.awaitReadiness(t, "a start", func(readiness) bool { return true })
		return r
	}
	restored := append([]string{"restore", "--policy", demo.Policy}, store...)
	t.Run("before", func(t *testing.T) {
		server(t).preview(t)
		if code, _, errs := runCommand(t, restored...); code != command.ExitUsage && code != command.ExitFailure || !strings.Contains(errs, "another process holds the file") {
			t.Errorf("beside the server it ends with %d: %s", code, errs)
		}
	})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	other := append([]string{"restore", "--policy", "other"}, store...)
	if code, _, errs := runCommand(t, other...); code != command.ExitFailure || !strings.Contains(errs, "of this location there is "+file) || !strings.Contains(errs, ".shop.snapshot") {
		t.Errorf("restore of another --policy ends with %d: %s", code, errs)
	}
	t.Run("lost", func(t *testing.T) {
		r := server(t)
		r.awaitMissing(t, "shop")
		r.decides(t, 0, 7)
	})
	if code, out, errs := runCommand(t, restored...); code != command.ExitOK || !strings.Contains(out, "stored again: 1 policy") {
		t.Errorf("restore ends with %d: %s%s", code, out, errs)
	}
	t.Run("restored", func(t *testing.T) {
		r := server(t)
		r.awaitMissing(t)
		r.decides(t, 0, 7)
		if code, _ := r.call(t, "admin", "GET", policies+"/shop", ""); code != 200 {
			t.Errorf("the policy is %d", code)
		}
	})
}

func TestRestoreTeachesWhatIsWrong(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	damaged := filepath.Join(t.TempDir(), "damaged")
	if err := os.WriteFile(damaged, []byte("understudy snapshot 2\nno"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"both":     {[]string{"--empty", "--missing"}, command.ExitUsage, "choose one"},
		"no file":  {nil, command.ExitFailure, "name a copy of its file with --snapshot-file"},
		"damaged":  {[]string{"--snapshot-file", damaged}, command.ExitFailure, "is corrupt"},
		"location": {[]string{"--location", "shop"}, command.ExitUsage, "--location: it is like"},
		"argument": {[]string{"shop"}, command.ExitUsage, "one argument too many"},
		"nothing":  {[]string{"--empty"}, command.ExitOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if code, _, errs := runCommand(t, append([]string{"restore"}, c.args...)...); code != c.code || !strings.Contains(errs, c.says) {
				t.Errorf("it ends with %d: %s", code, errs)
			}
		})
	}
}

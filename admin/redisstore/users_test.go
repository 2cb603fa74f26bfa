package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"understudy/admin"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	"understudy/authz"
)

// users are those that Understudy ships.
const users = "../../deploy/redis/users.conf"

// apart is a store as two processes have it: the control plane with its user of Redis, and
// a sidecar with its own.
type apart struct {
	admin.Store
	authz.Feed
}

// openApart opens the same server twice for each test.
func openApart(control, sidecar string) storetest.Open {
	return func(t testing.TB, c storetest.Config) storetest.Both {
		return apart{open(t, control, options(c)...), open(t, sidecar, options(c)...)}
	}
}

// The whole suite, with everything that sidecars do done by their user.
func TestUsers(t *testing.T) {
	server := storetest.StartRedisWithUsers(t, users)
	control := server.URLOf(storetest.ControlUser, storetest.ControlPassword)
	sidecar := server.URLOf(storetest.SidecarUser, storetest.SidecarPassword)
	for _, url := range []string{control, sidecar} {
		if err := open(t, url).Probe(t.Context()); err != nil {
			t.Fatalf("probing: %v", err)
		}
	}
	if _, err := open(t, control).Durability(t.Context()); err != nil {
		t.Errorf("the control plane cannot read how Redis is configured: %v", err)
	}
	if err := open(t, server.URL()).Probe(t.Context()); !errors.Is(err, redisstore.ErrRefused) {
		t.Errorf("without a user: error %v, want ErrRefused", err)
	}
	storetest.Run(t, openApart(control, sidecar), nil)
}

// The same in a cluster, where clients ask for the slots.
func TestUsersOfACluster(t *testing.T) {
	url := startCluster(t)
	one, err := redis.ParseClusterURL(strings.Replace(url, "redis+cluster", "redis", 1))
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClusterClient(one)
	t.Cleanup(func() { _ = c.Close() })
	for line := range strings.Lines(storetest.RedisUsers(t, users)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "user" || words[1] == "default" {
			continue
		}
		setUser(t, c, words[1:])
	}
	host := strings.TrimPrefix(url, "redis+cluster://")
	of := func(user, password string) string { return "redis+cluster://" + user + ":" + password + "@" + host }
	both := openApart(of(storetest.ControlUser, storetest.ControlPassword), of(storetest.SidecarUser, storetest.SidecarPassword))
	eventually(t, "the cluster does not answer", func() error {
		_, err := both(t, storetest.Config{}).Load(t.Context(), location)
		return err
	})
	storetest.Run(t, both, nil)
}

// setUser makes a user on every primary, from the words of a line of the file. A selector,
// which is in parentheses, is one argument.
func setUser(t *testing.T, c *redis.ClusterClient, words []string) {
	t.Helper()
	rules, selector, found := strings.Cut(strings.Join(words, " "), " (")
	arguments := []any{"ACL", "SETUSER"}
	for _, rule := range strings.Fields(rules) {
		arguments = append(arguments, rule)
	}
	if found {
		arguments = append(arguments, "("+selector)
	}
	for _, node := range primaries(t, c) {
		if err := node.Do(t.Context(), arguments...).Err(); err != nil {
			t.Fatalf("making the user %s: %v", words[0], err)
		}
	}
}

// primaries are clients of the primaries of a cluster.
func primaries(t *testing.T, c *redis.ClusterClient) (out []*redis.Client) {
	t.Helper()
	var mu sync.Mutex
	err := c.ForEachMaster(t.Context(), func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		out = append(out, node)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A sidecar's user reads policies and cannot write one: by no command, by no script, and
// not by the very script that the control plane commits with.
func TestSidecarCannotWritePolicies(t *testing.T) {
	server := storetest.StartRedisWithUsers(t, users)
	control := open(t, server.URLOf(storetest.ControlUser, storetest.ControlPassword))
	sidecar := open(t, server.URLOf(storetest.SidecarUser, storetest.SidecarPassword))
	if _, err := control.Commit(t.Context(), put("before")); err != nil {
		t.Fatal(err)
	}
	owner := clientOf(t, server, storetest.ControlUser, storetest.ControlPassword)
	before := everything(t, owner)

	if _, err := sidecar.Commit(t.Context(), put("attempt")); !errors.Is(err, redisstore.ErrRefused) {
		t.Errorf("committing: error %v, want ErrRefused", err)
	}
	name := admin.EvidenceName{Experiment: web + "/experiments/strict", UID: "u1"}
	if err := sidecar.DropEvidence(t.Context(), name); !errors.Is(err, redisstore.ErrRefused) {
		t.Errorf("dropping evidence: error %v, want ErrRefused", err)
	}
	attacker := clientOf(t, server, storetest.SidecarUser, storetest.SidecarPassword)
	for _, command := range attempts(t) {
		if err := attacker.Do(t.Context(), command...).Err(); !isDenied(err) {
			t.Errorf("%.80q: error %v, want one that says the user has no permission", fmt.Sprint(command...), err)
		}
	}
	if diff := cmp.Diff(before, everything(t, owner)); diff != "" {
		t.Errorf("the sidecar's user has changed (-before +after):\n%s", diff)
	}
	if got, err := sidecar.Load(t.Context(), location); err != nil || len(got.Policies) != 1 {
		t.Errorf("it loads %d policies, %v", len(got.Policies), err)
	}
}

// attempts are commands by which who has a sidecar's password may try to change what is
// enforced, or what others may do.
func attempts(t *testing.T) (out [][]any) {
	t.Helper()
	const p = "understudy:{p1}:"
	stream := p + "changes:" + string(location)
	for _, write := range [][]any{
		{"SET", p + "sequence", "9"}, {"HSET", p + "values", string(web), "x"}, {"HDEL", p + "values", string(web)},
		{"HSET", p + "versions", string(web), "9 0 x"}, {"HDEL", p + "versions", string(web)},
		{"ZADD", p + "index", "0", "a b"}, {"ZREM", p + "index", "a b"}, {"ZADD", p + "expiries", "0", "a b"},
		{"XADD", stream, "*", "nonce", "n"}, {"XTRIM", stream, "MAXLEN", "0"}, {"XSETID", stream, "9-0"},
		{"DEL", p + "values"}, {"UNLINK", p + "values"}, {"PEXPIRE", p + "values", "1"}, {"EXPIREAT", p + "values", "1"},
		{"RENAME", p + "nodes:" + string(location), p + "values"}, {"COPY", p + "evidence", p + "values", "REPLACE"},
		{"RESTORE", p + "values", "0", "x"}, {"SET", p + "done:next", "1"}, {"HSET", p + "evidence:u1:settled", "version", "9"},
		{"SORT", p + "index", "STORE", p + "values"}, {"HSET", "elsewhere", "a", "b"},
		// Names that look like those which it may write.
		{"HSET", p + "values:nodes:x", "a", "b"}, {"HSET", p + "x:evidence:u1:values", "a", "b"},
		{"HSET", p + "changes:projects/p1/locations/x:nodes:y", "a", "b"},
	} {
		script := []any{"EVAL", "return redis.call(unpack(ARGV))", 1, write[1]}
		hidden := []any{"EVAL", "return redis.call(unpack(ARGV))", 0}
		out = append(out, write, append(script, write...), append(hidden, write...))
	}
	commit, err := os.ReadFile("commit.lua")
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, []any{
		"EVAL", string(commit), 6, p + "sequence", p + "index", p + "versions", p + "values", p + "expiries", p + "done:next",
		1, "nonce", 100, 3600, 1000, 0, 1, "delete", "projects/locations/policies " + string(web),
	})
	for _, command := range []string{
		"FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "KEYS *", "SCAN 0", "CONFIG SET dir /", "CONFIG GET *", "ACL LIST", "ACL SETUSER understudy-sidecar +@all",
		"SCRIPT FLUSH", "SCRIPT LOAD x", "FUNCTION LOAD x", "FUNCTION FLUSH", "FCALL f 0", "MULTI", "SUBSCRIBE c", "PUBLISH c x", "MONITOR",
		"CLIENT KILL TYPE normal", "CLIENT LIST", "REPLICAOF NO ONE", "SHUTDOWN", "SAVE", "MIGRATE h 1 k 0 1", "GET understudy:{p1}:sequence",
	} {
		var words []any
		for _, word := range strings.Fields(command) {
			words = append(words, word)
		}
		out = append(out, words)
	}
	return out
}

// isDenied reports whether Redis refused a command for who asked, alone or in a script.
func isDenied(err error) bool {
	return err != nil && (strings.HasPrefix(err.Error(), "NOPERM ") || strings.Contains(err.Error(), "The user executing the script can't"))
}

// clientOf is a client of a user.
func clientOf(t *testing.T, server *storetest.RedisServer, user, password string) *redis.Client {
	t.Helper()
	_, path := server.Address()
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: path, Username: user, Password: password})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// everything is what Redis has.
func everything(t *testing.T, c *redis.Client) map[string]string {
	t.Helper()
	out := make(map[string]string)
	scan := c.Scan(t.Context(), 0, "*", 1000).Iterator()
	for scan.Next(t.Context()) {
		value, err := c.Dump(t.Context(), scan.Val()).Result()
		if err != nil {
			t.Fatal(err)
		}
		out[scan.Val()] = value
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"understudy/admin"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/testkit"
)

// users are those that Understudy ships.
const users = "../../deploy/redis/users.conf"

// apart is a store as two processes have it: the control plane with its user of Redis, and
// a sidecar with its own.
type apart struct {
	admin.Store
	authz.Feed
}

// Chunk is of both: it is the sidecar's here.
func (a apart) Chunk(ctx context.Context, of authz.Content, index int) ([]byte, error) {
	return a.Feed.Chunk(ctx, of, index)
}

// openApart opens the same server twice for each test.
func openApart(control, sidecar string) storetest.Open {
	return func(t testing.TB, c storetest.Config) storetest.Both {
		asSidecar := append(options(c), redisstore.AsSidecar())
		return apart{open(t, control, options(c)...), open(t, sidecar, asSidecar...)}
	}
}

// The whole suite, with everything that sidecars do done by their user.
func TestUsers(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedisWithUsers(t, users)
	control := server.URLOf(url.UserPassword(storetest.ControlUser, storetest.ControlPassword))
	sidecar := server.URLOf(url.UserPassword(storetest.SidecarUser, storetest.SidecarPassword))
	for _, store := range []*redisstore.Store{open(t, control), open(t, sidecar, redisstore.AsSidecar())} {
		if err := store.Probe(t.Context()); err != nil {
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
	t.Parallel()
	url := startCluster(t)
	c := clusterClient(t, url)
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
	eventually(t, "the cluster answers", func() error {
		return open(t, of(storetest.ControlUser, storetest.ControlPassword)).LoadFunctions(t.Context())
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

// clusterClient is a client of the cluster of a store's URL.
func clusterClient(t *testing.T, url string) *redis.ClusterClient {
	t.Helper()
	options, err := redis.ParseClusterURL(strings.Replace(url, "redis+cluster", "redis", 1))
	if err != nil {
		t.Fatal(err)
	}
	options.DialTimeout, options.ReadTimeout, options.PoolTimeout = testkit.Patience, testkit.Patience, testkit.Patience
	c := redis.NewClusterClient(options)
	t.Cleanup(func() { _ = c.Close() })
	return c
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

// stage is the location of these tests with another ID.
func stage(id string) authz.Location { return authz.Location("projects/p1/locations/" + id) }

// openStages starts a Redis with a user for the sidecars of dev, and one for those of prod, in
// which both have a policy, an experiment, a node and evidence.
func openStages(t *testing.T) (server *storetest.RedisServer, control *redisstore.Store) {
	t.Helper()
	server = storetest.StartRedisWithUsers(t, users, "{p1}/dev", "{p1}/prod")
	control = open(t, server.URLOf(url.UserPassword(storetest.ControlUser, storetest.ControlPassword)))
	txn := admin.Txn{ID: "stages", Project: "p1", Writes: []admin.Write{
		admin.Put{Key: "projects/p1/iamPolicies/bindings", Value: []byte("who may do what")},
	}}
	for _, id := range []string{"dev", "prod"} {
		at, policy := admin.Key(stage(id)), admin.Key(stage(id).Policy("web"))
		txn.Writes = append(txn.Writes, admin.Put{Key: policy, Value: []byte("policy")}, admin.Put{Key: tryIn(id).Experiment, Value: []byte("has uid-1 in it")},
			admin.Put{Key: admin.ConfigOf(at), Value: []byte("config")}, admin.Put{Key: admin.IAMPolicyOf(at), Value: []byte("who may do what")},
			admin.Put{Key: policy.In("revisions").Key("r"), Value: []byte("revision")})
		txn.Events = append(txn.Events, admin.Event{Location: stage(id), Policies: []authz.PolicyName{authz.PolicyName(policy)}})
	}
	if _, err := control.Commit(t.Context(), txn); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"dev", "prod"} {
		sidecar := open(t, server.URLOf(url.UserPassword(storetest.SidecarUser+"-"+id, storetest.SidecarPassword)), redisstore.AsSidecar())
		if err := report(t, sidecar, id); err != nil {
			t.Fatalf("%s reports itself: %v", id, err)
		}
	}
	return server, control
}

// tryIn is the experiment of a stage.
func tryIn(id string) admin.EvidenceName {
	return admin.EvidenceName{Experiment: admin.Key(stage(id).Policy("web")) + "/experiments/e", UID: "uid-1"}
}

// report does all that a sidecar of a stage does.
func report(t *testing.T, sidecar *redisstore.Store, id string) error {
	t.Helper()
	node := stage(id).Node("n")
	_, errHeartbeat := sidecar.Heartbeat(t.Context(), &adminpb.Node{Name: node})
	_, errLoad := sidecar.Load(t.Context(), authz.Scope{Location: stage(id)})
	_, errNext := sidecar.Next(t.Context(), authz.Scope{Location: stage(id)}, authz.Cursor{})
	_, errPublish := sidecar.Publish(t.Context(), node, []authz.PublishedEvidence{
		{Experiment: string(tryIn(id).Experiment), UID: "uid-1", Tally: "tally-of-" + id, Serial: 1, Value: []byte("counted")},
	})
	return errors.Join(errHeartbeat, errLoad, errNext, errPublish)
}

// The user of the sidecars of dev reads its policies, and writes no policy; of prod it neither
// reads nor writes anything, by no call of a store, by no command and by no function, those of
// the control plane included.
func TestASidecarKeepsToItsLocation(t *testing.T) {
	server, control := openStages(t)
	owner := clientOf(t, server, storetest.ControlUser, storetest.ControlPassword)
	before := everything(t, owner)

	user := storetest.SidecarUserOf("{p1}/dev")
	sidecar := open(t, server.URLOf(url.UserPassword(user, storetest.SidecarPassword)), redisstore.AsSidecar())
	for doing, call := range beyond(t, sidecar) {
		if err := call(); !errors.Is(err, redisstore.ErrRefused) {
			t.Errorf("%s: error %v, want ErrRefused", doing, err)
		}
	}
	attacker := clientOf(t, server, user, storetest.SidecarPassword)
	loadAnything(t, owner)
	for _, command := range attempts(libraryOf(t, owner)) {
		if err := attacker.Do(t.Context(), command...).Err(); !isDenied(err) {
			t.Errorf("%.120q: error %v, want one that says the user has no permission", fmt.Sprint(command...), err)
		}
	}
	if diff := cmp.Diff(before, everything(t, owner)); diff != "" {
		t.Errorf("the sidecar's user has changed (-before +after):\n%s", diff)
	}
	if got, err := sidecar.Load(t.Context(), authz.Scope{Location: stage("dev")}); err != nil || len(got.Policies) != 1 {
		t.Errorf("it loads %d policies, %v", len(got.Policies), err)
	}
	if nodes, err := control.Nodes(t.Context(), stage("prod")); err != nil || len(nodes) != 1 {
		t.Errorf("prod has %d nodes, %v", len(nodes), err)
	}
}

// anything is a function that runs any command, and anything_ro one that reads: what a library
// of the control plane could do at most for who calls it.
const anything = "anything"

func loadAnything(t *testing.T, owner *redis.Client) {
	t.Helper()
	const run = "function(keys, argv) return redis.call(unpack(argv)) end"
	err := owner.FunctionLoad(t.Context(), "#!lua name=anything\nredis.register_function('anything', "+run+")\n"+
		"redis.register_function{function_name='anything_ro', callback="+run+", flags={'no-writes'}}").Err()
	if err != nil {
		t.Fatal(err)
	}
}

// libraryOf is the name of the library of this version, which a store has loaded.
func libraryOf(t *testing.T, owner *redis.Client) string {
	t.Helper()
	found, err := owner.FunctionList(t.Context(), redis.FunctionListQuery{LibraryNamePattern: "understudy_*"}).Result()
	if err != nil || len(found) != 1 {
		t.Fatalf("there are the libraries %+v, %v", found, err)
	}
	return found[0].Name
}

// beyond are calls of a store that are not for the sidecars of dev.
func beyond(t *testing.T, sidecar *redisstore.Store) map[string]func() error {
	t.Helper()
	ctx := t.Context()
	inDev := admin.Txn{ID: "attempt", Project: "p1", Writes: []admin.Write{admin.Delete{Key: admin.Key(stage("dev").Policy("web"))}}}
	calls := map[string]func() error{
		"committing in dev": func() error { _, err := sidecar.Commit(ctx, inDev); return err },
		"the bindings of the project": func() error {
			_, err := sidecar.Get(ctx, "projects/p1/iamPolicies/bindings")
			return err
		},
		"all locations": func() error {
			_, err := sidecar.List(ctx, admin.Query{Collection: "projects/p1/locations/-/policies"})
			return err
		},
		"the evidence of the project": func() error { _, err := sidecar.EvidenceNames(ctx, "p1"); return err },
		"compacting evidence in dev":  func() error { return sidecar.Compact(ctx, admin.Compaction{EvidenceName: tryIn("dev")}) },
		"dropping evidence in dev":    func() error { return sidecar.DropEvidence(ctx, tryIn("dev")) },
		"reading evidence in dev":     func() error { _, err := sidecar.Evidence(ctx, tryIn("dev")); return err },
		"loading prod":                func() error { _, err := sidecar.Load(ctx, authz.Scope{Location: stage("prod")}); return err },
		"following prod": func() error {
			_, err := sidecar.Next(ctx, authz.Scope{Location: stage("prod")}, authz.Cursor{})
			return err
		},
		"reading the nodes of prod":          func() error { _, err := sidecar.Nodes(ctx, stage("prod")); return err },
		"removing the node of prod":          func() error { return sidecar.Leave(ctx, stage("prod").Node("n")) },
		"reporting itself as a node of prod": func() error { return report(t, sidecar, "prod") },
		"publishing evidence of prod": func() error {
			_, err := sidecar.Publish(ctx, stage("prod").Node("n"), counted(1))
			return err
		},
	}
	for _, id := range []string{"dev", "prod"} {
		for _, key := range []admin.Key{admin.ConfigOf(admin.Key(stage(id))), admin.IAMPolicyOf(admin.Key(stage(id))), admin.Key(stage(id).Policy("web")) + "/revisions/r"} {
			calls["reading "+string(key)] = func() error { _, err := sidecar.Get(ctx, key); return err }
		}
	}
	return calls
}

// attempts are commands by which who has the password of dev's sidecars may try to read what
// is not for them, to change what is enforced, or what others may do.
func attempts(library string) (out [][]any) {
	const ofProject, dev, prod = "understudy:{p1}:", "understudy:{p1}/dev/", "understudy:{p1}/prod/"
	web := string(stage("dev").Policy("web"))
	for _, command := range [][]any{
		{"SET", ofProject + "sequence", "9"}, {"SET", ofProject + "watermark", "9"}, {"HSET", dev + "feed/watermark", "number", "9"}, {"SET", ofProject + "done:next", "1"}, {"SADD", ofProject + "locations", "x"},
		{"HGET", ofProject + "values", "projects/p1/iamPolicies/bindings"}, {"XRANGE", prod + "feed/changes", "-", "+"},
		{"HSET", dev + "feed/values", web, "x"}, {"HDEL", dev + "feed/values", web}, {"HSET", dev + "feed/versions", web, "9 0 x"},
		{"HDEL", dev + "feed/versions", web}, {"ZADD", dev + "feed/index", "0", "a b"}, {"ZREM", dev + "feed/index", "a b"},
		{"ZADD", dev + "feed/expiries", "0", "a b"}, {"XADD", dev + "feed/changes", "*", "nonce", "n"},
		{"XTRIM", dev + "feed/changes", "MAXLEN", "0"}, {"XSETID", dev + "feed/changes", "9-0"}, {"DEL", dev + "feed/values"},
		{"UNLINK", dev + "feed/values"}, {"PEXPIRE", dev + "feed/values", "1"}, {"EXPIREAT", dev + "feed/values", "1"},
		{"RENAME", dev + "reports/nodes", dev + "feed/values"}, {"COPY", dev + "reports/evidence", dev + "feed/values", "REPLACE"},
		{"RESTORE", dev + "feed/values", "0", "x"}, {"SORT", dev + "feed/index", "STORE", dev + "feed/values"},
		{"HSET", dev + "feed/evidence/uid-1/serials", "t", "9"}, {"HSET", dev + "control/evidence/uid-1/compacted", "version", "9"},
		{"HGET", dev + "control/values", string(stage("dev")) + "/config"}, {"HSET", dev + "control/values", "a", "b"}, {"HSET", "elsewhere", "a", "b"},
		{"HGET", prod + "feed/values", string(stage("prod").Policy("web"))}, {"HGET", prod + "control/values", string(stage("prod")) + "/config"},
		{"HSET", prod + "reports/nodes", "n", "x"}, {"ZADD", prod + "reports/heartbeats", "0", "n"}, {"HDEL", prod + "reports/nodes", "n"},
		{"HSET", prod + "reports/evidence/uid-1/values", "t", "x"}, {"SADD", prod + "reports/evidence", "x"},
		// Names that look like those which it may write.
		{"HSET", "understudy:{p1}/dev:reports/x", "a", "b"}, {"HSET", "understudy:{p1}/devel/reports/nodes", "a", "b"},
		{"HSET", "understudy:{p1}/x/dev/reports/nodes", "a", "b"}, {"HSET", "understudy:{p2}/dev/reports/nodes", "a", "b"},
		{"HSET", "x:understudy:{p1}/dev/reports/nodes", "a", "b"}, {"HSET", dev + "control/reports/x", "a", "b"},
	} {
		// Alone, and by a function that does anything: with the key, with another one and with none.
		out = append(out, command, append([]any{"FCALL", anything, 1, command[1]}, command...),
			append([]any{"FCALL", anything, 1, dev + "reports/x"}, command...), append([]any{"FCALL", anything, 0}, command...),
			append([]any{"FCALL_RO", anything + "_ro", 1, dev + "feed/values"}, command...))
	}
	const own = dev + "reports/"
	out = append(out,
		// The functions of the control plane, on keys that it may write.
		[]any{
			"FCALL", library + "_commit", 8, own + "a", own + "b", own + "c", own + "e", dev + "feed/index", dev + "feed/versions", dev + "feed/values", own + "d",
			1, "nonce", 100, 3600, 1000, 0, 0, "", 1, "dev", 0, 1, "delete", 1, "projects/locations/policies " + web,
		},
		[]any{"FCALL", library + "_compact", 6, own + "evidence", own + "a", own + "b", own + "c", own + "d", own + "e", "x uid-1", 0, "sum", 1000},
		[]any{"FCALL", library + "_drop", 6, own + "evidence", own + "a", own + "b", own + "c", own + "d", own + "e", "x uid-1"},
	)
	for _, command := range []string{
		"FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "KEYS *", "SCAN 0", "CONFIG SET dir /", "CONFIG GET *", "ACL LIST", "ACL SETUSER understudy-sidecar-dev +@all",
		"SCRIPT FLUSH", "SCRIPT LOAD x", "SCRIPT KILL", "EVALSHA x 0", "FUNCTION LOAD x", "FUNCTION FLUSH", "FUNCTION DELETE x", "FUNCTION LIST", "FUNCTION DUMP",
		"FUNCTION RESTORE x", "FUNCTION KILL", "FUNCTION STATS", "MULTI", "SUBSCRIBE c", "PUBLISH c x", "MONITOR", "CLIENT KILL TYPE normal", "CLIENT LIST",
		"REPLICAOF NO ONE", "SHUTDOWN", "SAVE", "MIGRATE h 1 k 0 1", "GET understudy:{p1}:sequence", "SMEMBERS understudy:{p1}:locations", "EVAL return 0", "EVAL_RO return 0",
	} {
		var words []any
		for _, word := range strings.Fields(command) {
			words = append(words, word)
		}
		out = append(out, words)
	}
	return out
}

// isDenied reports whether Redis refused a command for who asked, alone or in a function.
func isDenied(err error) bool {
	return err != nil && (strings.HasPrefix(err.Error(), "NOPERM ") ||
		strings.Contains(err.Error(), "The user executing the script can't") || strings.Contains(err.Error(), "ACL failure in script: "))
}

// clientOf is a client of a user.
func clientOf(t *testing.T, server *storetest.RedisServer, user, password string) *redis.Client {
	t.Helper()
	_, path := server.Address()
	c := redis.NewClient(patient(&redis.Options{Network: "unix", Addr: path, Username: user, Password: password}))
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

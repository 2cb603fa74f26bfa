package redisstore_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"understudy/admin"
	"understudy/admin/compactor"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	"understudy/authz"
	"understudy/cmd/testkit"
)

// A sidecar waits for the functions, and says who loads them; it does not load them even where
// it may. It works once a server of the admin API has, at its start or by any call.
func TestASidecarWaitsForTheFunctions(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	sidecar, owner := open(t, server.URL(), redisstore.AsSidecar()), client(t, server)
	for doing, load := range map[string]func(*redisstore.Store) error{
		"probing": func(s *redisstore.Store) error { return s.Probe(t.Context()) },
		"loading": func(s *redisstore.Store) error { return s.LoadFunctions(t.Context()) },
		"reading": func(s *redisstore.Store) error { _, err := s.Get(t.Context(), web); return err },
	} {
		if err := owner.FunctionFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := sidecar.Probe(t.Context()); err != nil {
			t.Errorf("%s: a sidecar that has to wait does not start: %v", doing, err)
		}
		_, err := sidecar.Load(t.Context(), authz.Scope{Location: location})
		if !errors.Is(err, redisstore.ErrNoFunctions) || !errors.Is(err, admin.ErrUnavailable) || !strings.Contains(err.Error(), "a server of the admin API") {
			t.Errorf("%s: without functions: %v", doing, err)
		}
		if err := load(open(t, server.URL())); err != nil {
			t.Errorf("%s: %v", doing, err)
		}
		if _, err := sidecar.Load(t.Context(), authz.Scope{Location: location}); err != nil {
			t.Errorf("%s: afterwards: %v", doing, err)
		}
	}
}

// The library of this version is next to those of others, and stays as it is.
func TestLibrariesOfSeveralVersions(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	store, owner := open(t, server.URL()), client(t, server)
	const other = "#!lua name=understudy_000000000000\nredis.register_function('understudy_000000000000_read', function() return 'other' end)"
	if err := owner.FunctionLoad(t.Context(), other).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := store.LoadFunctions(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Commit(t.Context(), put("a")); err != nil {
		t.Error(err)
	}
	libraries, err := owner.FunctionList(t.Context(), redis.FunctionListQuery{LibraryNamePattern: "understudy_*"}).Result()
	if err != nil || len(libraries) != 2 {
		t.Errorf("there are %+v, %v", libraries, err)
	}
	if of, err := owner.FCall(t.Context(), "understudy_000000000000_read", nil).Text(); err != nil || of != "other" {
		t.Errorf("the other version reads %q, %v", of, err)
	}
}

// In a cluster the functions are on each primary, for no primary gives them to another one.
func TestFunctionsOfACluster(t *testing.T) {
	t.Parallel()
	url := startCluster(t)
	store := open(t, url)
	eventually(t, "the cluster answers", func() error { return store.LoadFunctions(t.Context()) })
	c := clusterClient(t, url)
	for _, node := range primaries(t, c) {
		libraryOf(t, node)
		if err := node.FunctionFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Get(t.Context(), web); err != nil {
		t.Error(err)
	}
	for _, node := range primaries(t, c) {
		libraryOf(t, node)
	}
}

// A server without functions, which Redis before 7.0 is, is named as such.
func TestTooOld(t *testing.T) {
	t.Parallel()
	var renamed []string
	for _, command := range []string{"FUNCTION", "FCALL", "FCALL_RO"} {
		renamed = append(renamed, "--rename-command", command, "")
	}
	server := storetest.StartRedis(t, renamed...)
	store, sidecar := open(t, server.URL()), open(t, server.URL(), redisstore.AsSidecar())
	_, errLoad := sidecar.Load(t.Context(), authz.Scope{Location: location})
	for doing, err := range map[string]error{"probing": store.Probe(t.Context()), "loading": errLoad} {
		if !errors.Is(err, redisstore.ErrTooOld) || !strings.Contains(err.Error(), "Redis 7.0 or later") {
			t.Errorf("%s: %v", doing, err)
		}
	}
}

// A user that may not load functions is one that the store refuses.
func TestFunctionsMayNotBeLoaded(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedisWithUsers(t, users)
	store := open(t, server.URLOf(url.UserPassword(storetest.SidecarUser, storetest.SidecarPassword)))
	for doing, err := range map[string]error{"probing": store.Probe(t.Context()), "loading": store.LoadFunctions(t.Context())} {
		if !errors.Is(err, redisstore.ErrRefused) {
			t.Errorf("%s: error %v, want ErrRefused", doing, err)
		}
	}
}

// The operator's user ends a function that does not end, while which Redis answers nobody else,
// and removes libraries. It sees no key.
func TestOperator(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "users.conf")
	if err := os.WriteFile(config, []byte(storetest.RedisUsers(t, users)), 0o600); err != nil {
		t.Fatal(err)
	}
	server := storetest.StartRedis(t, "--include", config, "--busy-reply-threshold", "10")
	owner := clientOf(t, server, storetest.ControlUser, storetest.ControlPassword)
	const endless = "#!lua name=endless\nredis.register_function{function_name='endless', callback=function() while true do end end, flags={'no-writes'}}"
	if err := owner.FunctionLoad(t.Context(), endless).Err(); err != nil {
		t.Fatal(err)
	}
	sidecar := clientOf(t, server, storetest.SidecarUser, storetest.SidecarPassword)
	ended := make(chan error, 1)
	go func() { ended <- sidecar.FCallRO(t.Context(), "endless", []string{"understudy:{p1}/l1/feed/x"}).Err() }()
	operator := clientOf(t, server, storetest.OperatorUser, storetest.OperatorPassword)
	eventually(t, "the operator ends the function", func() error { return operator.FunctionKill(t.Context()).Err() })
	if err := testkit.Receive(t, "the endless function to be killed", ended); err == nil || !strings.Contains(err.Error(), "killed by user") {
		t.Errorf("the function ended with %v", err)
	}
	if err := operator.ScriptKill(t.Context()).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOTBUSY") {
		t.Errorf("SCRIPT KILL: %v", err)
	}
	if err := operator.FunctionDelete(t.Context(), "endless").Err(); err != nil {
		t.Error(err)
	}
	for _, command := range []string{"GET", "HGETALL", "TYPE", "DUMP"} {
		if err := operator.Do(t.Context(), command, ofFeed+"values").Err(); !isDenied(err) {
			t.Errorf("%s: error %v, want one that says the user has no permission", command, err)
		}
	}
	if err := operator.FunctionLoadReplace(t.Context(), endless).Err(); !isDenied(err) {
		t.Errorf("FUNCTION LOAD: error %v, want one that says the user has no permission", err)
	}
}

// What a sidecar's user sends to a function cannot make it cost more than what he sends and
// what is stored together.
func TestBoundsOfFunctions(t *testing.T) {
	server := storetest.StartRedis(t)
	store, c := open(t, server.URL()), client(t, server)
	try(t, store)
	library := libraryOf(t, c)
	const all = "projects/locations/policies projects/p1/locations/l1/"
	spans := []any{1, 1, "", "", "values", 0, 0}
	for range 3 {
		spans = append(spans, 1, "["+all, "("+all+"~", "")
	}
	keys := []string{ofFeed + "index", ofFeed + "versions", ofFeed + "values"}
	if err := c.FCallRO(t.Context(), library+"_read", keys, spans...).Err(); err == nil || !strings.Contains(err.Error(), "spans overlap") {
		t.Errorf("the same span again and again: %v", err)
	}
	names := []any{1, 1, "", "", "values", 0, 1000}
	for range 1000 {
		names = append(names, 1, string(web))
	}
	reply, err := c.FCallRO(t.Context(), library+"_read", keys, names...).Slice()
	if err != nil || len(reply[2].([]any)) != 4 {
		t.Errorf("the same name again and again: %v, %v", reply, err)
	}
	keys, args := []string{ofFeed + "versions", ofFeed + "values", ofReports + "heartbeats", evidence}, []any{node, 1000, 1}
	for range 65 {
		keys = append(keys, evidence+"/uid-1/tallies", evidence+"/uid-1/values", ofFeed+"evidence/uid-1/over", ofFeed+"evidence/uid-1/serials")
		args = append(args, string(tried.Experiment), "uid-1", "t", 1, "x")
	}
	if err := c.FCall(t.Context(), library+"_publish", keys, args...).Err(); err == nil || !strings.Contains(err.Error(), "more than 64 tallies") {
		t.Errorf("65 tallies: %v", err)
	}
}

// A store publishes more tallies than a function takes.
func TestPublishMany(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	store := open(t, server.URL())
	try(t, store)
	var due []authz.PublishedEvidence
	for i := range 150 {
		due = append(due, authz.PublishedEvidence{
			Experiment: string(tried.Experiment), UID: tried.UID, Tally: fmt.Sprint(i), Serial: 1, Value: []byte("x"),
		})
	}
	// Of an experiment that is not there, also at the end.
	due[149].UID = "gone-2"
	// Of a key that has the wrong type: all that are published first, and one later.
	for i := range 64 {
		due[i].UID = "wrong"
	}
	due[64].UID, due[100].UID = "gone-1", "wrong"
	if err := client(t, server).Set(t.Context(), evidence+"/wrong/tallies", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	out, err := store.Publish(t.Context(), node, due)
	if err != nil || out.Nodes != 1 || len(out.Refused) != 2 || out.Refused[0].Tally != "64" || out.Refused[1].Tally != "149" ||
		len(out.Failed) != 65 || !errors.Is(out.Failed["100"], redisstore.ErrWrongType) {
		t.Errorf("got %+v, %v", out, err)
	}
	if got := read(t, store); len(got.Tallies) != 83 {
		t.Errorf("%d tallies are stored", len(got.Tallies))
	}
}

// Names that the sidecars of dev write among their own lead nobody to prod: its evidence is
// not dropped for them, and its nodes are in no list of dev.
func TestNamesOfAnotherLocation(t *testing.T) {
	server, control := openStages(t)
	attacker := clientOf(t, server, storetest.SidecarUserOf("{p1}/dev"), storetest.SidecarPassword)
	const dev = "understudy:{p1}/dev/reports/"
	gone := string(stage("prod").Policy("web")) + "/experiments/gone"
	foreign, err := attacker.Do(t.Context(), "HGET", dev+"nodes", stage("dev").Node("n")).Text()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]any{
		{"SADD", dev + "evidence", gone + " uid-1"},
		{"HSET", dev + "nodes", stage("prod").Node("n"), foreign},
		{"ZADD", dev + "heartbeats", "99999999999999", stage("prod").Node("n")},
	} {
		if err := attacker.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	names, err := control.EvidenceNames(t.Context(), "p1")
	if err != nil || len(names) != 2 || names[0] != tryIn("dev") || names[1] != tryIn("prod") {
		t.Errorf("there is evidence of %v, %v", names, err)
	}
	if nodes, err := control.Nodes(t.Context(), stage("dev")); err != nil || len(nodes) != 1 {
		t.Errorf("dev has the nodes %v, %v", nodes, err)
	}
	// A second sweep drops what the first one found without an experiment.
	sweeper := &compactor.Compactor{Store: control, Project: "p1", Logger: slog.New(slog.DiscardHandler)}
	for range 2 {
		if err := sweeper.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got, err := control.Evidence(t.Context(), tryIn("prod")); err != nil || len(got.Tallies) != 1 {
		t.Errorf("prod has %+v, %v", got, err)
	}
}

// functionCalls are calls of all functions, with keys and arguments that they take. Numbers that are arguments are
// replaced by others in TestFunctionsBoundTheirNumbers.
var functionCalls = map[string]struct {
	keys []string
	args []any
}{
	"read":      {[]string{ofFeed + "index", ofFeed + "versions", ofFeed + "values"}, []any{1, 1, "", "", "values", 5, 1, 1, string(web), 1, "[a", "(b", ""}},
	"commit":    {[]string{ofFeed + "sequence", ofFeed + "done", ofFeed + "locations", ofFeed + "watermark", ofFeed + "i", ofFeed + "v", ofFeed + "w", ofFeed + "e"}, []any{1, "nonce", 5, 5, 5, 1, 1, "raises", 1, "", 0, 1, "fewer", 1, "[a", "(b", 1, 1, "trim", 1, "[a", "(b", 1}},
	"chunk":     {[]string{ofFeed + "content"}, []any{1, "chunk", 1, 1}},
	"compact":   {[]string{evidence, ofFeed + "t", ofFeed + "v", ofFeed + "o", ofFeed + "c", ofFeed + "serials"}, []any{"e uid", 1, "sum", 1, "tally", 1}},
	"drop":      {[]string{evidence, ofFeed + "t", ofFeed + "v", ofFeed + "o", ofFeed + "c", ofFeed + "serials"}, []any{"e uid"}},
	"evidence":  {[]string{ofFeed + "t", ofFeed + "v", ofFeed + "c"}, nil},
	"heartbeat": {[]string{ofFeed + "n", ofFeed + "h", ofFeed + "stream", ofFeed + "m", ofFeed + "mark"}, []any{"node", "report", 1, 1}},
	"leave":     {[]string{ofFeed + "n", ofFeed + "h", ofFeed + "m"}, []any{"node"}},
	"nodes":     {[]string{ofFeed + "n", ofFeed + "h"}, []any{1}},
	"publish":   {[]string{ofFeed + "v", ofFeed + "w", ofFeed + "h", evidence, ofFeed + "t", ofFeed + "x", ofFeed + "o", ofFeed + "serials"}, []any{"node", 1, 1, "e", "uid", "tally", 1, "value"}},
}

// TestFunctionsBoundTheirNumbers: a number in the arguments of a function makes Redis neither work nor take memory for
// what was not sent. Each is a thousand million, below zero, no whole number and no number, and keys and arguments are
// left out.
func TestFunctionsBoundTheirNumbers(t *testing.T) {
	server := storetest.StartRedis(t)
	c := client(t, server)
	if err := open(t, server.URL()).LoadFunctions(t.Context()); err != nil {
		t.Fatal(err)
	}
	library := libraryOf(t, c)
	names, err := c.FunctionList(t.Context(), redis.FunctionListQuery{LibraryNamePattern: library}).Result()
	if err != nil || len(names) != 1 || len(names[0].Functions) != len(functionCalls) {
		t.Fatalf("the functions are %+v, %v; functionCalls has %d", names, err, len(functionCalls))
	}
	before := peakMemory(t, c)
	for name, of := range functionCalls {
		call := func(keys []string, args []any) error {
			return c.FCall(t.Context(), library+"_"+name, keys, args...).Err()
		}
		if err := call(of.keys, of.args); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i := range of.args {
			_ = call(of.keys, of.args[:i])
			if _, isNumber := of.args[i].(int); !isNumber {
				continue
			}
			for _, number := range []any{1_000_000_000, "1e9", -1, 0.5, "x", "inf", "nan"} {
				args := slices.Clone(of.args)
				args[i] = number
				_ = call(of.keys, args)
			}
		}
		for i := range of.keys {
			_ = call(of.keys[:i], of.args)
		}
	}
	for _, of := range []struct {
		name string
		at   int
	}{{"read", 1}, {"commit", 8}, {"commit", 10}} {
		args := slices.Clone(functionCalls[of.name].args)
		args[of.at] = 1_000_000_000
		if err := c.FCall(t.Context(), library+"_"+of.name, functionCalls[of.name].keys, args...).Err(); err == nil || !strings.Contains(err.Error(), "number of keys") {
			t.Errorf("%s with too many keys: %v", of.name, err)
		}
	}
	if after := peakMemory(t, c); after > before+10<<20 {
		t.Errorf("the memory rose from %d to %d bytes", before, after)
	}
}

// peakMemory returns the most memory that Redis has used, in bytes.
func peakMemory(t *testing.T, c *redis.Client) (n int) {
	t.Helper()
	info, err := c.Info(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "\r\nused_memory_peak:")
	text, _, _ := strings.Cut(rest, "\r\n")
	if n, err = strconv.Atoi(text); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestFunctionsBoundTheirTexts: what a caller sends is not compared with what is stored if either is long, since the time
// of that is their product.
func TestFunctionsBoundTheirTexts(t *testing.T) {
	server := storetest.StartRedis(t)
	c := client(t, server)
	if err := open(t, server.URL()).LoadFunctions(t.Context()); err != nil {
		t.Fatal(err)
	}
	library := libraryOf(t, c)
	read := functionCalls["read"]
	args := slices.Clone(read.args)
	args[len(args)-1] = strings.Repeat("/", 1025)
	if err := c.FCallRO(t.Context(), library+"_read", read.keys, args...).Err(); err == nil || !strings.Contains(err.Error(), "a template is too long") {
		t.Errorf("a long template: %v", err)
	}
	publish := functionCalls["publish"]
	versions, values := publish.keys[0], publish.keys[1]
	for about, of := range map[string]struct {
		stored  map[string]string
		refused bool
	}{
		"the UID is in the value":          {map[string]string{"e": "x uid y"}, false},
		"it is another experiment":         {map[string]string{"e": "x other y"}, true},
		"the UID is in the summary":        {map[string]string{"e": strings.Repeat("x", 1<<20), "e summary": "uid"}, false},
		"the summary is of another one":    {map[string]string{"e": "uid", "e summary": "other"}, true},
		"a long value without its summary": {map[string]string{"e": strings.Repeat("x", 1<<20)}, false},
	} {
		if err := c.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.HSet(t.Context(), versions, "e", "1 0 etag").Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.HSet(t.Context(), values, of.stored).Err(); err != nil {
			t.Fatal(err)
		}
		reply, err := c.FCall(t.Context(), library+"_publish", publish.keys, publish.args...).Slice()
		if err != nil || len(reply) != 2 || (len(reply[1].([]any)) > 0) != of.refused {
			t.Errorf("%s: %v, %v", about, reply, err)
		}
	}
}

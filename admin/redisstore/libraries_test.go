package redisstore_test

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"understudy/admin/storetest"
	adminpb "understudy/admin/v1"
)

// A library of another version is unused once every node, in whichever location, reports that it
// calls another one. The control plane's user of Redis may find that out.
func TestUnusedLibraries(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedisWithUsers(t, users)
	control := open(t, server.URLOf(url.UserPassword(storetest.ControlUser, storetest.ControlPassword)))
	network, address := server.Address()
	other := redis.NewClient(patient(&redis.Options{Network: network, Addr: address, Username: storetest.ControlUser, Password: storetest.ControlPassword}))
	t.Cleanup(func() { _ = other.Close() })
	unused := func() []string {
		t.Helper()
		names, err := control.UnusedLibraries(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if err := control.LoadFunctions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := unused(); len(got) != 0 {
		t.Errorf("without another library: %q", got)
	}
	const faulty, former = "understudy_000000000000", "understudy_111111111111"
	for _, name := range []string{former, faulty, "app"} {
		code := "#!lua name=" + name + "\nredis.register_function('" + name + "_read', function() return 1 end)"
		if err := other.FunctionLoad(t.Context(), code).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// beat is the heartbeat of a node of another version: it writes what such a node reports.
	beat := func(location, id, library string) {
		t.Helper()
		name := "projects/p1/locations/" + location + "/nodes/" + id
		node := &adminpb.Node{Name: name}
		if _, err := control.Heartbeat(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		node.FunctionLibrary = library
		report, err := proto.Marshal(node)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.HSet(t.Context(), "understudy:{p1}/"+location+"/reports/nodes", name, report).Err(); err != nil {
			t.Fatal(err)
		}
	}
	beat("l1", "a", control.Library())
	beat("l2", "b", former)
	if diff := cmp.Diff([]string{faulty}, unused()); diff != "" {
		t.Errorf("a node calls %s: %s", former, diff)
	}
	beat("l3", "c", "")
	if got := unused(); len(got) != 0 {
		t.Errorf("a node does not say what it calls: %q", got)
	}
	if err := control.Leave(t.Context(), "projects/p1/locations/l3/nodes/c"); err != nil {
		t.Fatal(err)
	}
	beat("l2", "b", control.Library())
	if diff := cmp.Diff([]string{faulty, former}, unused()); diff != "" {
		t.Errorf("all nodes call another one: %s", diff)
	}
}

// In a cluster, each primary is asked for its libraries and its locations.
func TestUnusedLibrariesOfACluster(t *testing.T) {
	t.Parallel()
	url := startCluster(t)
	store := open(t, url)
	eventually(t, "the cluster answers", func() error { return store.LoadFunctions(t.Context()) })
	var names []string
	for i, node := range primaries(t, clusterClient(t, url)) {
		name := "understudy_00000000000" + string(rune('0'+i))
		names = append(names, name)
		if err := node.FunctionLoad(t.Context(), "#!lua name="+name+"\nredis.register_function('"+name+"_read', function() return 1 end)").Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, project := range []string{"p1", "p2", "p3", "p4"} {
		if _, err := store.Heartbeat(t.Context(), &adminpb.Node{Name: "projects/" + project + "/locations/l/nodes/a"}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := store.UnusedLibraries(t.Context())
	if diff := cmp.Diff(names, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

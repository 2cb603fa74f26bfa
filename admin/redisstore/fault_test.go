package redisstore_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"understudy/admin"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/testkit"
)

const (
	location = authz.Location("projects/p1/locations/l1")
	web      = admin.Key(location + "/policies/web")
)

// The beginnings of keys, of the project p1 and of the parts of its location l1.
const (
	ofProject = "understudy:{p1}:"
	ofFeed    = "understudy:{p1}/l1/feed/"
	ofReports = "understudy:{p1}/l1/reports/"
	ofControl = "understudy:{p1}/l1/control/"
)

// put returns a Txn that creates the policy web, with an event for it.
func put(id string) admin.Txn {
	return admin.Txn{
		ID: id, Project: "p1",
		Conditions: []admin.Condition{admin.Absent{Key: web}},
		Writes:     []admin.Write{admin.Put{Key: web, Value: []byte("new")}},
		Events:     []admin.Event{{Location: location, Policies: []authz.PolicyName{authz.PolicyName(web)}}},
	}
}

// warm makes the functions known to the server, so that each Txn is one FCALL.
func warm(t *testing.T, store *redisstore.Store) {
	t.Helper()
	if _, err := store.Commit(t.Context(), admin.Txn{ID: "warm", Project: "warm"}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), web); err != nil {
		t.Fatal(err)
	}
}

func client(t *testing.T, server *storetest.RedisServer) *redis.Client {
	t.Helper()
	network, address := server.Address()
	c := redis.NewClient(patient(&redis.Options{Network: network, Addr: address}))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// patient sets timeouts that a server on a busy machine does not reach.
func patient(o *redis.Options) *redis.Options {
	o.DialTimeout, o.ReadTimeout, o.PoolTimeout = testkit.Patience, testkit.Patience, testkit.Patience
	return o
}

// A reply that is lost does not turn success into failure, nor is the change made
// twice.
func TestLostReply(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	p := newProxy(t, server, "fcall\r")
	store := open(t, p.url())
	warm(t, store)
	for lost := range int64(4) {
		id := fmt.Sprintf("lost-%d", lost)
		txn := put(id)
		txn.Project, txn.Events = id, nil
		txn.Conditions = []admin.Condition{admin.Absent{Key: admin.Key("projects/" + id + "/x/y")}}
		txn.Writes = []admin.Write{admin.Put{Key: admin.Key("projects/" + id + "/x/y")}}
		p.passed.Store(0)
		p.replies.Store(lost)
		sequence, err := store.Commit(t.Context(), txn)
		if err != nil || sequence != sequenceOf(t, store, admin.Key("projects/"+id+"/x/y")) {
			t.Errorf("%d replies lost: sequence %d, %v", lost, sequence, err)
		}
		if n := p.passed.Load(); n != lost+1 {
			t.Errorf("%d replies lost: the server got %d requests", lost, n)
		}
	}
}

// sequenceOf returns the number of the Txn that wrote a record.
func sequenceOf(t *testing.T, store *redisstore.Store, key admin.Key) int64 {
	t.Helper()
	records, err := store.Get(t.Context(), key)
	if err != nil || records[0].Key == "" {
		t.Fatalf("%s is %v, %v", key, records, err)
	}
	return records[0].Sequence
}

// A condition that fails is reported although its reply was lost.
func TestLostReplyOfFailure(t *testing.T) {
	t.Parallel()
	p := newProxy(t, storetest.StartRedis(t), "fcall\r")
	store := open(t, p.url())
	warm(t, store)
	txn := put("fails")
	txn.Conditions = []admin.Condition{admin.Exists{Key: web}}
	p.replies.Store(2)
	_, err := store.Commit(t.Context(), txn)
	var failed *admin.ConditionError
	if !errors.As(err, &failed) {
		t.Errorf("error %v", err)
	}
}

// A request that never reached the server is sent again.
func TestLostRequest(t *testing.T) {
	t.Parallel()
	p := newProxy(t, storetest.StartRedis(t), "fcall\r")
	store := open(t, p.url())
	warm(t, store)
	p.requests.Store(2)
	if sequence, err := store.Commit(t.Context(), put("request")); err != nil || sequence != sequenceOf(t, store, web) {
		t.Errorf("sequence %d, %v", sequence, err)
	}
	p.requests.Store(2)
	if records, err := store.Get(t.Context(), web); err != nil || records[0].Key == "" {
		t.Errorf("records %v, %v", records, err)
	}
}

// A server that is gone after it may have run the function leaves the outcome open.
func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	p := newProxy(t, server, "fcall\r")
	store := open(t, p.url())
	warm(t, store)
	p.replies.Store(1 << 40)
	_, err := store.Commit(t.Context(), put("unknown"))
	if !errors.Is(err, admin.ErrOutcomeUnknown) || errors.Is(err, admin.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	// It was made: a commit with the same ID shows that.
	p.replies.Store(0)
	if sequence, err := store.Commit(t.Context(), put("unknown")); err != nil || sequence != sequenceOf(t, store, web) {
		t.Errorf("sequence %d, %v", sequence, err)
	}
}

// A reply that is lost and a server that is gone afterwards: the last error is one
// of dialling, but the change may have been made.
func TestOutcomeUnknownThenDown(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	p := newProxy(t, server, "fcall\r")
	store := open(t, p.url())
	warm(t, store)
	p.replies.Store(1)
	p.downAfter(1)
	_, err := store.Commit(t.Context(), put("unknown"))
	if !errors.Is(err, admin.ErrOutcomeUnknown) {
		t.Errorf("error %v", err)
	}
}

func TestDown(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	store := open(t, server.URL())
	warm(t, store)
	cursor := authz.Cursor{}
	waiting := make(chan error)
	go func() {
		_, err := store.Next(t.Context(), authz.Scope{Location: location}, cursor)
		waiting <- err
	}()
	server.Stop()
	checkUnavailable(t, store)
	if err := testkit.Receive(t, "a Next to end with an error", waiting); !errors.Is(err, admin.ErrUnavailable) {
		t.Errorf("the follower that waited: %v", err)
	}
}

// A store whose server was never there opens, so that a sidecar can start without.
func TestNeverUp(t *testing.T) {
	t.Parallel()
	checkUnavailable(t, open(t, "unix:///nonexistent/socket"))
}

func checkUnavailable(t *testing.T, store *redisstore.Store) {
	t.Helper()
	ctx, node := t.Context(), &adminpb.Node{Name: string(location) + "/nodes/n"}
	for name, call := range map[string]func() error{
		"Get":           func() error { _, err := store.Get(ctx, web); return err },
		"List":          func() error { _, err := store.List(ctx, admin.Query{Collection: "projects/p1/locations"}); return err },
		"Commit":        func() error { _, err := store.Commit(ctx, put("down")); return err },
		"Nodes":         func() error { _, err := store.Nodes(ctx, location); return err },
		"Load":          func() error { _, err := store.Load(ctx, authz.Scope{Location: location}); return err },
		"Next":          func() error { _, err := store.Next(ctx, authz.Scope{Location: location}, authz.Cursor{}); return err },
		"Heartbeat":     func() error { _, err := store.Heartbeat(ctx, node); return err },
		"Leave":         func() error { return store.Leave(ctx, node.Name) },
		"Publish":       func() error { _, err := store.Publish(ctx, node.Name, counted(1)); return err },
		"Evidence":      func() error { _, err := store.Evidence(ctx, tried); return err },
		"Compact":       func() error { return store.Compact(ctx, admin.Compaction{EvidenceName: tried}) },
		"EvidenceNames": func() error { _, err := store.EvidenceNames(ctx, "p1"); return err },
		"DropEvidence":  func() error { return store.DropEvidence(ctx, tried) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := call(); !errors.Is(err, admin.ErrUnavailable) || errors.Is(err, admin.ErrOutcomeUnknown) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// A server that halts makes a call fail, and what was sent to it is made at most once.
func TestHalted(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	store, impatient := open(t, server.URL()), open(t, server.URL()+"?read_timeout=200ms")
	warm(t, store)
	eventually(t, "the store has a connection", func() error {
		_, err := impatient.Get(t.Context(), web)
		return err
	})
	if err := server.Process().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := impatient.Commit(t.Context(), put("halted")); !errors.Is(err, admin.ErrOutcomeUnknown) {
		t.Errorf("Commit: %v", err)
	}
	if _, err := impatient.Get(t.Context(), web); !errors.Is(err, admin.ErrUnavailable) {
		t.Errorf("Get: %v", err)
	}
	if err := server.Process().Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if sequence, err := store.Commit(t.Context(), put("halted")); err != nil || sequence != sequenceOf(t, store, web) {
		t.Errorf("the same ID afterwards: %d, %v", sequence, err)
	}
}

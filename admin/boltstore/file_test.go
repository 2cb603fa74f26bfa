package boltstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"understudy/admin"
	"understudy/admin/boltstore"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/testkit"
)

const (
	location = authz.Location("projects/p1/locations/l1")
	web      = admin.Key(location + "/policies/web")
)

// change returns a Txn with an event for the policy web.
func change(id string, writes ...admin.Write) admin.Txn {
	return admin.Txn{
		ID: id, Project: "p1", Writes: writes,
		Events: []admin.Event{{Location: location, Policies: []authz.PolicyName{authz.PolicyName(web)}}},
	}
}

func commit(t testing.TB, store *boltstore.Store, txn admin.Txn) int64 {
	t.Helper()
	sequence, err := store.Commit(t.Context(), txn)
	if err != nil {
		t.Fatal(err)
	}
	return sequence
}

func load(t *testing.T, store *boltstore.Store) authz.Update {
	t.Helper()
	update, err := store.Load(t.Context(), authz.Scope{Location: location})
	if err != nil {
		t.Fatal(err)
	}
	return update
}

// The file and its folder are the user's alone.
func TestPermissions(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(folder, "understudy.db")
	open(t, path)
	for path, want := range map[string]os.FileMode{path: 0o600, folder: 0o700, filepath.Dir(folder): 0o700} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %v instead of %v", path, got, want)
		}
	}
}

// A file that is held says which one it is and what to do.
func TestHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "understudy.db")
	first := open(t, path)
	_, err := boltstore.Open(path)
	if !errors.Is(err, boltstore.ErrHeld) {
		t.Fatalf("error %v", err)
	}
	for _, word := range []string{path, "stop it", "another file"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	commit(t, first, change("a"))
}

// What cannot be opened is an error that names the file.
func TestOpenFails(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"a folder": folder, "another file": text, "a file as a folder": filepath.Join(text, "db"),
	} {
		if _, err := boltstore.Open(path); err == nil || !strings.Contains(err.Error(), text) && path != folder {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Opening again goes on where the file was left.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "understudy.db")
	first, err := boltstore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	written := commit(t, first, change("a", admin.Put{Key: web, Etag: "e"}))
	cursor := load(t, first).Cursor
	closeStore(t, first)

	second := open(t, path)
	if again := commit(t, second, change("a")); again != written {
		t.Errorf("the repeat returned %d", again)
	}
	if head := load(t, second).Cursor; head != cursor {
		t.Errorf("the head is %+v instead of %+v", head, cursor)
	}
	if sequence := commit(t, second, change("b")); sequence <= written {
		t.Errorf("the next sequence is %d", sequence)
	}
	if _, err := second.Next(t.Context(), authz.Scope{Location: location}, cursor); err != nil {
		t.Errorf("following over the restart: %v", err)
	}
}

// A file that was put back from a copy is found out by who had seen more.
func TestRestored(t *testing.T) {
	folder := t.TempDir()
	path, copied := filepath.Join(folder, "understudy.db"), filepath.Join(folder, "copy.db")
	store, err := boltstore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, store, change("kept"))
	kept := load(t, store).Cursor
	closeStore(t, store)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, content, 0o600); err != nil {
		t.Fatal(err)
	}
	store = open(t, path)
	commit(t, store, change("lost"))
	lost := load(t, store).Cursor

	old := open(t, copied)
	if _, err := old.Next(t.Context(), authz.Scope{Location: location}, lost); !errors.Is(err, authz.ErrTrimmed) {
		t.Errorf("a cursor beyond the head: %v", err)
	}
	testkit.Await(t, "the millisecond of the lost change is over", func() bool { return time.Now().UnixMilli() > lost.Sequence })
	commit(t, old, change("instead"))
	if instead := load(t, old).Cursor; instead.Sequence <= lost.Sequence {
		t.Errorf("%+v came instead of %+v", instead, lost)
	}
	for range 2 {
		if _, err := old.Next(t.Context(), authz.Scope{Location: location}, lost); !errors.Is(err, authz.ErrTrimmed) {
			t.Errorf("a follower of the lost change: %v", err)
		}
		if _, err := old.Next(t.Context(), authz.Scope{Location: location}, kept); err != nil {
			t.Errorf("a follower that had not seen it: %v", err)
		}
		commit(t, old, change("later"))
	}
}

// Closing ends those who wait; calls afterwards fail as those to a lost store.
func TestClose(t *testing.T) {
	store, err := boltstore.Open(filepath.Join(t.TempDir(), "understudy.db"))
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error)
	ctx := context.WithoutCancel(t.Context())
	go func() {
		_, err := store.Next(ctx, authz.Scope{Location: location}, authz.Cursor{})
		waiting <- err
	}()
	closeStore(t, store)
	if err := testkit.Receive(t, "a Next to end with an error", waiting); !errors.Is(err, admin.ErrUnavailable) {
		t.Errorf("the follower: %v", err)
	}
	node := &adminpb.Node{Name: string(location) + "/nodes/n"}
	for name, call := range map[string]func() error{
		"Get":       func() error { _, err := store.Get(ctx, web); return err },
		"List":      func() error { _, err := store.List(ctx, admin.Query{Collection: "projects/p1/locations"}); return err },
		"Commit":    func() error { _, err := store.Commit(ctx, change("closed")); return err },
		"Nodes":     func() error { _, err := store.Nodes(ctx, location); return err },
		"Load":      func() error { _, err := store.Load(ctx, authz.Scope{Location: location}); return err },
		"Next":      func() error { _, err := store.Next(ctx, authz.Scope{Location: location}, authz.Cursor{}); return err },
		"Heartbeat": func() error { _, err := store.Heartbeat(ctx, node); return err },
		"Leave":     func() error { return store.Leave(ctx, node.Name) },
	} {
		if err := call(); !errors.Is(err, admin.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What no one needs after an hour is removed: reports of nodes, notes of Txns, and
// records that have expired.
func TestHourLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "understudy.db")
		store, err := boltstore.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		beat(t, store, "old")
		var first int64
		for i := range 40 {
			key := admin.Key(fmt.Sprintf("%s/operations/o%d", location, i))
			made := commit(t, store, admin.Txn{
				ID: fmt.Sprintf("old-%d", i), Project: "p1",
				Writes: []admin.Write{admin.Put{Key: key, ExpireTime: time.Now().Add(time.Minute)}},
			})
			first = cmp.Or(first, made)
		}
		time.Sleep(59 * time.Minute)
		if again := commit(t, store, change("old-0")); again != first {
			t.Errorf("within the hour, a repeat returned %d", again)
		}
		beat(t, store, "new")
		time.Sleep(2 * time.Minute)
		reports, err := store.Nodes(t.Context(), location)
		if err != nil || len(reports) != 1 || reports[0].Age != 2*time.Minute {
			t.Errorf("reports %v, %v", reports, err)
		}
		time.Sleep(time.Minute)
		beat(t, store, "new")
		for i := range 3 {
			commit(t, store, change(fmt.Sprintf("new-%d", i)))
		}
		closeStore(t, store)
		checkSizes(t, path, map[string]int{
			"records": 0, "expiries": 0, "done": 3, "doneTimes": 3, "nodes": 1,
		})
	})
}

func beat(t *testing.T, store *boltstore.Store, id string) {
	t.Helper()
	if _, err := store.Heartbeat(t.Context(), &adminpb.Node{Name: string(location) + "/nodes/" + id}); err != nil {
		t.Fatal(err)
	}
}

// checkSizes checks the number of entries in the buckets of the project.
func checkSizes(t *testing.T, path string, want map[string]int) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		for name, n := range want {
			if got := tx.Bucket([]byte("projects/p1")).Bucket([]byte(name)).Stats().KeyN; got != n {
				t.Errorf("%s has %d entries instead of %d", name, got, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

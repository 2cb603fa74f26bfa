package boltstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	"understudy/admin"
	"understudy/admin/boltstore"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/testkit"
)

// stored is the number of policies in the file of filled.
const stored = 60

// filled makes a file that has all that a store's can have: trees of several levels, free
// pages, values that are larger than a page, empty buckets. It returns its content.
func filled(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "filled.db")
	store, err := boltstore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		txn := change(fmt.Sprintf("round %d", round))
		for i := range stored {
			txn.Writes = append(txn.Writes, admin.Put{Key: policyKey(i), Value: policyValue(t, i), Etag: "e"})
		}
		for i := range 40 {
			key := admin.Key(fmt.Sprintf("%s/operations/%d", location, i))
			txn.Writes = append(txn.Writes, admin.Put{Key: key, Value: make([]byte, 500)}, admin.Delete{Key: key})
		}
		if _, err := store.Commit(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
	// What a damaged meta page takes back is no policy.
	for i := range 2 {
		if _, err := store.Commit(t.Context(), change(fmt.Sprintf("last %d", i))); err != nil {
			t.Fatal(err)
		}
	}
	tryOut(t, store)
	publishFilled(t, store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func policyKey(i int) admin.Key { return admin.Key(fmt.Sprintf("%s/policies/p%03d", location, i)) }

func policyValue(t testing.TB, i int) []byte {
	t.Helper()
	value, err := proto.Marshal(&adminpb.Policy{
		Name: string(policyKey(i)), Modules: map[string]string{"a.rego": strings.Repeat("# text\n", i*i/4)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// openDamaged opens a file with this content. Either that is refused, with an error that
// says how to go on, or every policy is there as it was put, or is a record that is said to
// be damaged. Nothing panics.
func openDamaged(t *testing.T, content []byte) (refused bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "damaged.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := boltstore.Open(path)
	if err != nil {
		for _, want := range []string{path, "understudy restore", "move it away"} {
			if !errors.Is(err, boltstore.ErrDamaged) || !strings.Contains(err.Error(), want) {
				t.Fatalf("the error is %q; want one that says %q", err, want)
			}
		}
		return true
	}
	defer closeStore(t, store)
	records, err := store.List(t.Context(), admin.Query{Collection: admin.Collection(location + "/policies")})
	if err != nil {
		t.Fatal(err)
	}
	whole := countWhole(t, records)
	if damaged, err := store.Damaged("p1"); err != nil || whole+damaged < stored {
		t.Errorf("%d policies are whole and %d records damaged, %v", whole, damaged, err)
	}
	update, err := store.Load(t.Context(), authz.Scope{Location: location})
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range update.Policies {
		if state.Policy != nil {
			whole--
		}
	}
	if whole != 0 || len(update.Policies) != len(records) {
		t.Errorf("%d policies are listed and %d loaded, of which %d more are whole", len(records), len(update.Policies), -whole)
	}
	// Where the name of the stream is damaged, there is none to wait for.
	if update.Cursor != (authz.Cursor{}) {
		if _, err := store.Next(t.Context(), authz.Scope{Location: location}, authz.Cursor{}); err != nil && !errors.Is(err, authz.ErrTrimmed) {
			t.Errorf("following: %v", err)
		}
	}
	checkFilledEvidence(t, store)
	if _, err := store.Commit(t.Context(), change("after", admin.Put{Key: policyKey(7), Value: policyValue(t, 7)})); err != nil {
		t.Errorf("committing: %v", err)
	}
	return false
}

// countWhole counts the records that are whole, each of which has to be as it was put. What
// is damaged may be the name: then the record is another one, and that one is damaged.
func countWhole(t *testing.T, records []admin.Record) (whole int) {
	t.Helper()
	put := make(map[admin.Key][]byte)
	for i := range stored {
		put[policyKey(i)] = policyValue(t, i)
	}
	for _, r := range records {
		if r.Damage != nil {
			continue
		}
		whole++
		if !bytes.Equal(r.Value, put[r.Key]) {
			t.Errorf("%s is another policy than was put", r.Key)
		}
	}
	return whole
}

// TestTruncated cuts a file off at the end of each page and next to it.
func TestTruncated(t *testing.T) {
	t.Parallel()
	content, page := filled(t), os.Getpagesize()
	refused, opened := 0, 0
	// Behind the last page that was ever in use there are others.
	for size := 0; size <= len(content) && opened < 5; size += page {
		for _, cut := range []int{size, size + 1, size + page/2} {
			switch {
			case cut >= len(content):
			case openDamaged(t, content[:cut]):
				refused = cut
			default:
				opened++
			}
		}
	}
	if refused < 50*page {
		t.Errorf("no file of more than %d bytes was refused", refused)
	}
}

// TestFlipped changes bytes of a file at random: one, or a stretch of them.
func TestFlipped(t *testing.T) {
	t.Parallel()
	content, random := filled(t), rand.New(rand.NewPCG(1, 2))
	page, refused := os.Getpagesize(), 0
	files := testkit.RaceCases(160)
	for i := range files {
		damaged := bytes.Clone(content)
		at := random.IntN(len(damaged))
		switch i % 4 {
		case 0: // one bit
			damaged[at] ^= 1 << random.IntN(8)
		case 1: // a byte of the pages in which bbolt finds everything
			damaged[at/page*page+random.IntN(200)] = byte(random.Uint32())
		case 2: // a sector
			clear(damaged[at/512*512:][:512])
		case 3: // a page that was written in another's place
			copy(damaged[at/page*page:][:page], content[random.IntN(len(content)/page)*page:])
		}
		if openDamaged(t, damaged) {
			refused++
		}
	}
	if refused == 0 || refused == files {
		t.Errorf("%d of %d files were refused", refused, files)
	}
}

// FuzzDamaged writes over a file anywhere.
func FuzzDamaged(f *testing.F) {
	content := filled(f)
	for _, at := range []uint32{0, 16, 4096, 2*4096 + 8, 3 * 4096, 40 * 4096} {
		f.Add(at, []byte{0xff})
	}
	f.Fuzz(func(t *testing.T, at uint32, bytes []byte) {
		damaged := append([]byte{}, content...)
		copy(damaged[int(at)%len(damaged):], bytes)
		openDamaged(t, damaged)
	})
}

// TestUnsummed: what an earlier version wrote has no checksums, and is read all the same.
func TestUnsummed(t *testing.T) {
	t.Parallel()
	store := open(t, filepath.Join(t.TempDir(), "old.db"))
	commit(t, store, change("a", admin.Put{Key: policyKey(1), Value: policyValue(t, 1), Etag: "e"}))
	if err := store.PutUnsummed("p1", []byte(policyKey(2)), policyValue(t, 2)); err != nil {
		t.Fatal(err)
	}
	records, err := store.Get(t.Context(), policyKey(1), policyKey(2))
	if err != nil || countWhole(t, records) != 2 || records[0].Etag != "e" {
		t.Errorf("they are read as %+v, %v", records, err)
	}
}

// TestNoStore: what was never a store is not made one.
func TestNoStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("users")); return err }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := boltstore.Open(path); !errors.Is(err, boltstore.ErrDamaged) || !strings.Contains(err.Error(), "another program") {
		t.Errorf("the file of another program: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("it was changed, %v", err)
	}
}

// TestCutOffWhileOpen: a file that is cut off under a running store is an error of each
// call, and no end of the process.
func TestCutOffWhileOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cut.db")
	if err := os.WriteFile(path, filled(t), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := boltstore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 2*int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := store.Load(t.Context(), authz.Scope{Location: location}); !errors.Is(err, admin.ErrUnavailable) || !errors.Is(err, boltstore.ErrDamaged) {
			t.Errorf("loading: %v", err)
		}
		if _, err := store.Commit(t.Context(), change("a")); !errors.Is(err, admin.ErrUnavailable) {
			t.Errorf("committing: %v", err)
		}
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

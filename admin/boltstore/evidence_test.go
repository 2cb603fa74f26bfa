package boltstore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.etcd.io/bbolt"

	"understudy/admin"
	"understudy/admin/boltstore"
	"understudy/authz"
)

// tried is the experiment of these tests, and node the one that counts.
var tried = admin.EvidenceName{Experiment: "projects/p1/locations/l1/others/e", UID: "uid-1"}

const node = "projects/p1/locations/l1/nodes/n"

// tryOut stores the experiment, under a name that no other test counts.
func tryOut(t testing.TB, store *boltstore.Store) {
	t.Helper()
	commit(t, store, change("try", admin.Put{Key: tried.Experiment, Value: []byte("has uid-1 in it")}))
}

// counted is what a tally has counted when it publishes for the nth time.
func counted(tally string, n int64, value string) authz.PublishedEvidence {
	return authz.PublishedEvidence{
		Experiment: string(tried.Experiment), UID: tried.UID, Tally: tally, Serial: n, Value: []byte(value),
	}
}

func publish(t testing.TB, store *boltstore.Store, evidence ...authz.PublishedEvidence) []string {
	t.Helper()
	out, err := store.Publish(t.Context(), node, evidence)
	if err != nil {
		t.Fatal(err)
	}
	var refused []string
	for _, r := range out.Refused {
		refused = append(refused, fmt.Sprint(r.Tally, " ", r.Serial))
	}
	return refused
}

func read(t testing.TB, store *boltstore.Store) admin.Evidence {
	t.Helper()
	out, err := store.Evidence(t.Context(), tried)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// filledValue is what the tallies of a filled file have counted.
func filledValue(i int) string { return strings.Repeat(fmt.Sprint("counted ", i), 100*i) }

// publishFilled puts evidence with values that are larger than a page into a file, some of
// it compacted.
func publishFilled(t testing.TB, store *boltstore.Store) {
	t.Helper()
	for i := range 12 {
		publish(t, store, counted(fmt.Sprint("t", i), 1, filledValue(i)))
	}
	if err := store.Compact(t.Context(), admin.Compaction{
		EvidenceName: tried, Compacted: []byte(filledValue(9)), Tallies: read(t, store).Tallies[:2],
	}); err != nil {
		t.Fatal(err)
	}
}

// checkFilledEvidence checks that nothing in a damaged file counts that was not counted.
func checkFilledEvidence(t *testing.T, store *boltstore.Store) {
	t.Helper()
	// The experiment may be the damaged name.
	names, err := store.EvidenceNames(t.Context(), "p1")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		got, err := store.Evidence(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got.Damage == nil && len(got.Compacted) > 0 && string(got.Compacted) != filledValue(9) {
			t.Errorf("what was compacted is %q", got.Compacted)
		}
		for _, r := range got.Tallies {
			i, _ := strconv.Atoi(strings.TrimPrefix(r.Tally, "t"))
			if string(r.Value) != filledValue(i) || r.Node != node || r.Serial != 1 {
				t.Errorf("%s of %s, %d, has counted %q", r.Tally, r.Node, r.Serial, r.Value)
			}
		}
	}
}

// What is damaged of an evidence costs that tally alone, and is named; what is published of
// it next takes its place. So it is with what was compacted.
func TestDamagedEvidence(t *testing.T) {
	t.Parallel()
	store := open(t, filepath.Join(t.TempDir(), "understudy.db"))
	tryOut(t, store)
	harm := func(key string, damage func([]byte) []byte) {
		t.Helper()
		if err := store.RawEvidence(tried, func(b *bbolt.Bucket) error {
			return b.Put([]byte(key), damage(append([]byte{}, b.Get([]byte(key))...)))
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i, damage := range []func([]byte) []byte{
		func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		func(b []byte) []byte { b[5] ^= 1; return b },
		func(b []byte) []byte { return b[:10] },
		func([]byte) []byte { return nil },
	} {
		n := int64(2*i + 1)
		publish(t, store, counted("a", n, "a"), counted("b", n, "b"))
		harm("tally/a", damage)
		if got := read(t, store); len(got.Tallies) != 1 || got.Tallies[0].Tally != "b" || !cmp.Equal(got.Damaged, []string{"a"}) {
			t.Errorf("damage %d: %+v", i, got)
		}
		if refused := publish(t, store, counted("a", n+1, "a")); len(refused) != 0 {
			t.Errorf("damage %d: refused are %v", i, refused)
		}
		if got := read(t, store); len(got.Tallies) != 2 || len(got.Damaged) != 0 {
			t.Errorf("damage %d, then published: %+v", i, got)
		}
		compaction := admin.Compaction{EvidenceName: tried, Version: read(t, store).Version, Compacted: []byte("sum")}
		if err := store.Compact(t.Context(), compaction); err != nil {
			t.Fatal(err)
		}
		harm("compacted", damage)
		got := read(t, store)
		if got.Damage == nil || len(got.Compacted) != 0 || len(got.Tallies) != 2 {
			t.Errorf("damaged compaction %d: %+v", i, got)
		}
		compaction.Version = got.Version
		if err := store.Compact(t.Context(), compaction); err != nil {
			t.Errorf("damaged compaction %d: compacting: %v", i, err)
		}
	}
}

// What is known of compacted tallies is forgotten two days later.
func TestEvidenceIsKept(t *testing.T) {
	t.Parallel()
	store := open(t, filepath.Join(t.TempDir(), "understudy.db"))
	tryOut(t, store)
	publish(t, store, counted("a", 1, "a"), counted("b", 1, "b"))
	compact := func(version int64) {
		t.Helper()
		err := store.Compact(t.Context(), admin.Compaction{
			EvidenceName: tried, Version: version, Compacted: []byte("sum"), Tallies: read(t, store).Tallies[:1],
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	compact(0)
	long := make([]byte, 8) // 1970
	if err := store.RawEvidence(tried, func(b *bbolt.Bucket) error { return b.Put([]byte("over/a"), long) }); err != nil {
		t.Fatal(err)
	}
	refused := publish(t, store, counted("a", 2, "a"))
	if want := []string{fmt.Sprint("a ", int64(authz.SerialUnknown))}; !cmp.Equal(refused, want) {
		t.Errorf("refused are %v, want %v: the serial is lost", refused, want)
	}
	compact(1)
	if refused := publish(t, store, counted("a", 2, "a"), counted("b", 2, "b")); !cmp.Equal(refused, []string{"b 1"}) {
		t.Errorf("refused are %v", refused)
	}
}

// countForEver counts one by one, as a node whose process has just started, publishes each
// number, compacts now and then what older processes have left, and prints what was
// acknowledged.
func countForEver(path string, out io.Writer) error {
	store, err := boltstore.Open(path)
	if err != nil {
		return err
	}
	ctx, tally := context.Background(), rand.Text()
	for n := int64(1); ; n++ {
		if _, err := store.Publish(ctx, node, []authz.PublishedEvidence{counted(tally, n, strconv.FormatInt(n, 10))}); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, n); err != nil {
			return err
		}
		if n%4 != 0 {
			continue
		}
		read, err := store.Evidence(ctx, tried)
		if err != nil {
			return err
		}
		if err := compactOthers(ctx, store, read, tally); err != nil {
			return err
		}
	}
}

// compactOthers compacts the tallies but for one.
func compactOthers(ctx context.Context, store *boltstore.Store, read admin.Evidence, own string) error {
	s := admin.Compaction{EvidenceName: tried, Version: read.Version}
	sum, _ := strconv.ParseInt(string(read.Compacted), 10, 64)
	for _, r := range read.Tallies {
		if r.Tally != own {
			n, _ := strconv.ParseInt(string(r.Value), 10, 64)
			sum += n
			s.Tallies = append(s.Tallies, r)
		}
	}
	s.Compacted = strconv.AppendInt(nil, sum, 10)
	return store.Compact(ctx, s)
}

// TestKilledWhileCounting: each number that was acknowledged counts once, and of those that
// were not at most the one that was on its way, however often the process dies.
func TestKilledWhileCounting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "understudy.db")
	store, err := boltstore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	tryOut(t, store)
	closeStore(t, store)
	var acknowledged, kills int64
	for round := range 8 {
		child, lines := startChild(t, counts, path)
		for range 3 + 5*round {
			if !lines.Scan() {
				t.Fatal("the child ended by itself")
			}
		}
		if err := child.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		last := lines.Text()
		for lines.Scan() {
			last = lines.Text()
		}
		_ = child.Wait()
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		acknowledged, kills = acknowledged+n, kills+1
	}
	store, err = boltstore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, store)
	before := read(t, store)
	if err := compactOthers(t.Context(), store, before, ""); err != nil {
		t.Fatal(err)
	}
	got := read(t, store)
	sum, err := strconv.ParseInt(string(got.Compacted), 10, 64)
	if err != nil || sum < acknowledged || sum > acknowledged+kills {
		t.Errorf("%d are there, %v; acknowledged were %d, and the process died %d times", sum, err, acknowledged, kills)
	}
	if diff := cmp.Diff(admin.Evidence{Compacted: got.Compacted, Version: got.Version}, got, cmpopts.IgnoreFields(admin.TallyRecord{}, "Age")); diff != "" {
		t.Error(diff)
	}
}

package boltstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"understudy/admin"
	"understudy/admin/boltstore"
	"understudy/cmd/testkit"
)

// A child process is this test binary with one of these variables, which holds the
// path of the file.
const (
	commitsTo = "UNDERSTUDY_TEST_COMMITS_TO"
	fills     = "UNDERSTUDY_TEST_FILLS"
	counts    = "UNDERSTUDY_TEST_COUNTS"
)

func TestMain(m *testing.M) {
	child := map[string]func(string, io.Writer) error{commitsTo: commitForEver, fills: fillDisk, counts: countForEver}
	for variable, run := range child {
		if path := os.Getenv(variable); path != "" {
			if err := run(path, os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// startChild starts a child and returns what it prints.
func startChild(t *testing.T, variable, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), variable+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := testkit.Start(child); err != nil {
		t.Fatal(err)
	}
	return child, bufio.NewScanner(out)
}

// pair returns the two records that each Txn of a child writes.
func pair(n int64) (a, b admin.Key) {
	key := func(c string) admin.Key { return admin.Key(fmt.Sprintf("%s/%s/r%d", location, c, n)) }
	return key("operations"), key("others")
}

// commitForEver writes pair after pair and prints the number of each once it is made.
func commitForEver(path string, out io.Writer) error {
	store, err := boltstore.Open(path)
	if err != nil {
		return err
	}
	records, err := store.List(context.Background(), admin.Query{Collection: admin.Collection(location + "/operations")})
	if err != nil {
		return err
	}
	for n := int64(len(records)) + 1; ; n++ {
		a, b := pair(n)
		value := []byte(strings.Repeat("x", int(n%7)*4000))
		txn := change(string(a), admin.Put{Key: a, Value: value}, admin.Put{Key: b, Value: value})
		if _, err := store.Commit(context.Background(), txn); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, n); err != nil {
			return err
		}
	}
}

// What was acknowledged survives the death of the process, and nothing is there by
// half.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "understudy.db")
	var last int64
	for round := range 8 {
		child, lines := startChild(t, commitsTo, path)
		for range 5 + 9*round {
			if !lines.Scan() {
				t.Fatal("the child ended by itself")
			}
		}
		if err := child.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		acknowledged := last
		for ok := true; ok; ok = lines.Scan() {
			if _, err := fmt.Sscan(lines.Text(), &acknowledged); err != nil {
				t.Fatalf("the child said %q: %v", lines.Text(), err)
			}
		}
		// Only how it ended is of no interest: it was killed.
		_ = child.Wait()
		last = checkWhole(t, path, acknowledged)
	}
}

// checkWhole checks that every pair up to a number is there, and that what is there is whole; it
// returns the number of the last pair.
func checkWhole(t *testing.T, path string, acknowledged int64) (last int64) {
	t.Helper()
	store, err := boltstore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, store)
	var head int64
	// One more may have been made that the child could not report any more.
	for n := int64(1); n <= acknowledged+2; n++ {
		a, b := pair(n)
		records, err := store.Get(t.Context(), a, b)
		if err != nil {
			t.Fatal(err)
		}
		hasA, hasB := records[0].Key != "", records[1].Key != ""
		if hasA != hasB || records[0].Sequence != records[1].Sequence {
			t.Fatalf("half of Txn %d is there", n)
		}
		if n <= acknowledged && !hasA {
			t.Fatalf("Txn %d of %d was acknowledged and is lost", n, acknowledged)
		}
		if hasA {
			last, head = n, records[0].Sequence
		}
	}
	if at := load(t, store).Cursor; at.Sequence != head {
		t.Fatalf("the head is %d after Txn %d with the number %d", at.Sequence, last, head)
	}
	return last
}

// fillDisk writes to a file that must not grow beyond a size, until it cannot, and
// checks that nothing is lost by that.
func fillDisk(path string, out io.Writer) error {
	signal.Ignore(syscall.SIGXFSZ)
	store, err := boltstore.Open(path)
	if err != nil {
		return err
	}
	limit := &syscall.Rlimit{Cur: 4 << 20, Max: 4 << 20}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, limit); err != nil {
		return err
	}
	ctx, made := context.Background(), int64(0)
	for err == nil {
		a, b := pair(made + 1)
		txn := change(string(a), admin.Put{Key: a, Value: make([]byte, 300<<10)}, admin.Put{Key: b})
		if _, err = store.Commit(ctx, txn); err == nil {
			made++
		}
	}
	if !errors.Is(err, admin.ErrUnavailable) || errors.Is(err, admin.ErrOutcomeUnknown) {
		return fmt.Errorf("the error of a full disk is %w", err)
	}
	// What is stored can still be read, and be removed.
	records, err := store.List(ctx, admin.Query{Collection: admin.Collection(location + "/operations")})
	if err != nil || int64(len(records)) != made {
		return fmt.Errorf("%d records of %d are left: %w", len(records), made, err)
	}
	_, err = fmt.Fprintln(out, made)
	return err
}

// A full disk is an error of a Txn that was not made, and loses nothing.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "understudy.db")
	child, lines := startChild(t, fills, path)
	var made int64
	if lines.Scan() {
		if _, err := fmt.Sscan(lines.Text(), &made); err != nil {
			t.Fatalf("the child said %q: %v", lines.Text(), err)
		}
	}
	if err := child.Wait(); err != nil {
		t.Fatalf("the child failed: %v", err)
	}
	if made == 0 {
		t.Fatal("nothing was stored before the disk was full")
	}
	if last := checkWhole(t, path, made); last != made {
		t.Errorf("Txn %d is there, although %d was the last", last, made)
	}
}

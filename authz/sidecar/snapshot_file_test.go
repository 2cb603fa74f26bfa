package sidecar_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"understudy/authz"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

func TestSidecarStartsFromItsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "snapshot")
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	t.Run("write", func(t *testing.T) {
		s, _ := start(t, feed, func(c *sidecar.Config) { c.SnapshotFile = file })
		testkit.Closed(t, "s is ready", s.Ready())
	})
	feed.setDown(true)
	t.Run("read", func(t *testing.T) {
		s, _ := start(t, feed, func(c *sidecar.Config) { c.SnapshotFile = file })
		testkit.Closed(t, "s is ready", s.Ready())
		if d := s.Check(t.Context(), request("GET", nil)); d.Effect != authz.Allow {
			t.Errorf("got %+v; want the saved policy's answer", d)
		}
		if status := s.Status(); status.Sequence != 1 || status.Lost == nil || status.Age() <= 0 {
			t.Errorf("the status is %+v; want the age of the file", status)
		}
	})
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v; want it private", info.Mode(), err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] ^= 1
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("corrupt", func(t *testing.T) {
		s, _ := start(t, feed, func(c *sidecar.Config) { c.SnapshotFile = file })
		// The file is looked at before the store is asked again.
		before := feed.loaded()
		testkit.Await(t, "asking the store", func() bool { return feed.loaded() >= before+2 })
		if d := s.Check(t.Context(), request("GET", nil)); d.Failure != authz.FailureNotReady {
			t.Errorf("got %+v; want not ready", d)
		}
	})
}

// TestWhatAKilledProcessLeftIsRemoved, and not what another one may be writing.
func TestWhatAKilledProcessLeftIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "snap")
	old := time.Now().Add(-time.Hour)
	for name, age := range map[string]time.Time{
		"snap~123": old, "snap~456": time.Now(), "snap~a": old, "snap.123": old, "other~123": old,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, age, age); err != nil {
			t.Fatal(err)
		}
	}
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", "")})
	_, stop := startWith(t, feed, newRecording(), func(c *sidecar.Config) { c.SnapshotFile = file })
	feed.awaitApplied(t, 1)
	stop()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "other~123 snap snap.123 snap~456 snap~a" {
		t.Errorf("there is %s", got)
	}
}

// TestSidecarsShareAFile: each of two writes it after every change, and it is never half.
func TestSidecarsShareAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "snap")
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", "")})
	first, stopFirst := startWith(t, feed, newRecording(), func(c *sidecar.Config) { c.SnapshotFile = file })
	second, stopSecond := startWith(t, feed, newRecording(), func(c *sidecar.Config) { c.SnapshotFile, c.Node = file, "n2" })
	testkit.Closed(t, "first is ready", first.Ready())
	testkit.Closed(t, "second is ready", second.Ready())
	var last int64
	for range 50 {
		last = feed.put(webName, authz.PolicyState{Policy: policy("a", "")})
		if _, _, err := sidecar.ReadSnapshot(location, file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	testkit.Await(t, "the last change", func() bool { return first.Status().Sequence == last && second.Status().Sequence == last })
	stopFirst()
	stopSecond()
	saved, _, err := sidecar.ReadSnapshot(location, file)
	if err != nil || saved.Cursor.Sequence != last {
		t.Errorf("saved is %+v, %v", saved.Cursor, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("there is more than the file: %v, %v", entries, err)
	}
}

// TestAFileThatCannotBeWrittenIsCounted: its folder is a file.
func TestAFileThatCannotBeWrittenIsCounted(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	feed, m := newFeed(), newMeter()
	feed.put(webName, authz.PolicyState{Policy: policy("a", "")})
	s, stop := startWith(t, feed, newRecording(), func(c *sidecar.Config) { c.SnapshotFile, c.Meters = filepath.Join(folder, "snap"), m })
	testkit.Closed(t, "s is ready", s.Ready())
	stop()
	if n := m.count(t, "understudy.snapshot.write_failures"); n != 1 {
		t.Errorf("%d failures are counted", n)
	}
}

// TestAFileThatIsWrittenAgainIsSaved: a folder that is missing is made by the next change.
func TestAFileThatIsWrittenAgainIsSaved(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	feed, m := newFeed(), newMeter()
	feed.put(webName, authz.PolicyState{Policy: policy("a", "")})
	s, stop := startWith(t, feed, newRecording(), func(c *sidecar.Config) { c.SnapshotFile, c.Meters = filepath.Join(folder, "snap"), m })
	defer stop()
	testkit.Closed(t, "s is ready", s.Ready())
	testkit.Await(t, "the file is not written", func() bool { return m.gauge(t, "understudy.snapshot.unsaved") == 1 })
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	feed.put(webName, authz.PolicyState{Policy: policy("b", "")})
	testkit.Await(t, "the file is written", func() bool { return m.gauge(t, "understudy.snapshot.unsaved") == 0 })
}

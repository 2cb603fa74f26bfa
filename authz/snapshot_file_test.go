package authz_test

import (
	"os"
	"path/filepath"
	"testing"

	"understudy/authz"
)

func TestSidecarStartsFromItsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "snapshot")
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	t.Run("write", func(t *testing.T) {
		s, _ := start(t, feed, func(c *authz.Config) { c.SnapshotFile = file })
		<-s.Ready()
	})
	feed.setDown(true)
	t.Run("read", func(t *testing.T) {
		s, _ := start(t, feed, func(c *authz.Config) { c.SnapshotFile = file })
		<-s.Ready()
		if d := s.Check(t.Context(), request("GET", nil)); d.Verdict != authz.Allow {
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
		s, _ := start(t, feed, func(c *authz.Config) { c.SnapshotFile = file })
		// The file is looked at before the store is asked again.
		before := feed.loaded()
		until(t, "asking the store", func() bool { return feed.loaded() >= before+2 })
		if d := s.Check(t.Context(), request("GET", nil)); d.Failure != authz.FailureNotReady {
			t.Errorf("got %+v; want not ready", d)
		}
	})
}

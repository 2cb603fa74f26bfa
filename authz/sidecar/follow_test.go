package sidecar_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/sidecar"
)

// forgetful is a feed that never keeps the changes after a cursor.
type forgetful struct{ *memoryFeed }

func (forgetful) Next(context.Context, authz.Scope, authz.Cursor) (authz.Update, error) {
	return authz.Update{}, authz.ErrTrimmed
}

// TestAStoreThatKeepsNothingIsNotStormed follows it for ten seconds of a clock that
// moves only while everyone waits.
func TestAStoreThatKeepsNothingIsNotStormed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := newFeed()
		s, err := sidecar.New(sidecar.Config{Feed: forgetful{feed}, Scope: authz.Scope{Location: location}, Node: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if n := feed.loaded(); n < 10 || n > 1000 {
			t.Errorf("everything was loaded %d times; want it done again and again, with pauses", n)
		}
	})
}

// silent is a feed that is asked and never answers, as behind a connection that is half
// open.
type silent struct{ *memoryFeed }

func (silent) Load(ctx context.Context, _ authz.Scope) (authz.Update, error) {
	<-ctx.Done()
	return authz.Update{}, ctx.Err()
}

func (silent) Heartbeat(ctx context.Context, _ *adminpb.Node) (authz.Head, error) {
	<-ctx.Done()
	return authz.Head{}, ctx.Err()
}

// TestAStoreThatNeverAnswersHoldsNoStartUp starts from the file within two seconds, of a
// clock that moves only while everyone waits.
func TestAStoreThatNeverAnswersHoldsNoStartUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot")
	feed := newFeed()
	feed.put(webName, named(webName, allowIf(onlyGET)))
	_, stop := startWith(t, feed, newRecording(), func(c *sidecar.Config) { c.SnapshotFile = file })
	feed.awaitApplied(t, 1)
	stop()
	synctest.Test(t, func(t *testing.T) {
		s, err := sidecar.New(sidecar.Config{
			Feed: silent{feed}, Scope: authz.Scope{Location: location}, Policy: "web", Node: "n1", SnapshotFile: file,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if status := s.Status(); !status.Ready || status.Lost == nil {
			t.Errorf("the status is %+v", status)
		}
		if d := s.Check(t.Context(), request("GET", nil)); d.Effect != authz.Allow {
			t.Errorf("got %+v; want the saved policy's answer", d)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

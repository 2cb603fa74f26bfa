package sidecar_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/diagnostics/logtest"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// answer sets what the feed says of its watermark.
func (f *memoryFeed) answer(watermark int64, ahead int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watermark, f.ahead = watermark, ahead
}

// beatsWith has a sidecar report itself by a change, and waits until it reports a watermark.
func (f *memoryFeed) beatsWith(t *testing.T, watermark int64) {
	t.Helper()
	f.put(secondName, named(secondName, allowIf(onlyGET)))
	f.awaitNode(t, func(n *adminpb.Node) bool { return n.Watermark == watermark })
}

func awaitWentBack(t *testing.T, s *sidecar.Sidecar, want bool) {
	t.Helper()
	testkit.Await(t, "whether the store has gone back", func() bool { return s.Status().WentBack == want })
}

// TestASidecarHearsOfOthersThatTheStoreWentBack: it has no snapshot file, and cannot know of itself.
func TestASidecarHearsOfOthersThatTheStoreWentBack(t *testing.T) {
	t.Parallel()
	feed, log := newFeed(), &logtest.Buffer{}
	feed.answer(5, 1)
	s, _ := start(t, feed, func(c *sidecar.Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	awaitWentBack(t, s, true)
	feed.beatsWith(t, 5)
	feed.beatsWith(t, 5)
	if n := strings.Count(log.String(), "the store has gone back"); n != 1 || !strings.Contains(log.String(), "sidecars_ahead=1") {
		t.Errorf("the log says it %d times: %s", n, log)
	}
	feed.awaitNode(t, func(n *adminpb.Node) bool { return strings.Contains(n.GetError().String(), authz.ReasonWentBack) })
	feed.answer(9, 0)
	feed.beatsWith(t, 9)
	awaitWentBack(t, s, false)
	feed.awaitNode(t, func(n *adminpb.Node) bool { return n.Error == nil })
	feed.answer(0, 1) // the store is empty
	feed.beatsWith(t, 9)
	awaitWentBack(t, s, false)
}

// TestASidecarRemembersTheWatermark: in its snapshot file, from a heartbeat without a change of policies too.
func TestASidecarRemembersTheWatermark(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "snapshot")
	feed := newFeed()
	feed.put(webName, named(webName, allowIf(onlyGET)))
	config := func(c *sidecar.Config) { c.SnapshotFile = file }
	saved := func(t *testing.T, want int64) {
		t.Helper()
		update, _, err := sidecar.ReadSnapshot(location, file)
		if err != nil || update.Watermark != want || update.Policies[webName].Policy == nil {
			t.Errorf("the file has %+v, %v; want the watermark %d", update, err, want)
		}
	}
	feed.answer(5, 0)
	s, stop := startWith(t, feed, newRecording(), config)
	feed.awaitNode(t, func(n *adminpb.Node) bool { return n.Watermark == 5 && n.AppliedSequence == 1 })
	feed.answer(9, 0)
	stop()
	saved(t, 9)
	if s.Status().WentBack {
		t.Error("the store has not gone back")
	}

	feed.answer(5, 0)
	s, stop = startWith(t, feed, newRecording(), config)
	feed.awaitNode(t, func(n *adminpb.Node) bool { return n.Watermark == 9 })
	awaitWentBack(t, s, true)
	testkit.Closed(t, "s is ready", s.Ready())
	if ask(t, s, "web", "GET") != authz.Allow {
		t.Error("another policy decides")
	}
	stop()
	saved(t, 9)
}

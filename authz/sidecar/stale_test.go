package sidecar_test

import (
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// stored returns what the feed has of a policy.
func (f *memoryFeed) stored(name authz.PolicyName) authz.PolicyState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.policies[name]
}

// rewrite stores what is there of a policy under a new number.
func (f *memoryFeed) rewrite(name authz.PolicyName) int64 { return f.put(name, f.stored(name)) }

func awaitStale(t *testing.T, s *sidecar.Sidecar, want ...authz.PolicyName) {
	t.Helper()
	testkit.Await(t, "the policies that are older in the store", func() bool { return slices.Equal(s.Status().Stale, want) })
}

// namesReason reports whether a node's error names a policy with a reason.
func namesReason(n *adminpb.Node, reason string, name authz.PolicyName) bool {
	return slices.ContainsFunc(status.FromProto(n.Error).Details(), func(d any) bool {
		info, ok := d.(*errdetails.ErrorInfo)
		return ok && info.Reason == reason && info.Metadata["resource"] == string(name)
	})
}

// TestAStoreThatWentBackChangesNoDecision: its older version of a policy allows what the newer one
// denies, and has no experiment.
func TestAStoreThatWentBackChangesNoDecision(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "snapshot")
	feed, m := newFeed(), newMeter()
	feed.put(webName, named(webName, allowIf(onlyGET)))
	older := feed.stored(webName)
	newer := named(webName, allowIf(onlyPOST))
	newer.Experiments = []*adminpb.PolicyExperiment{experiment("e", "1", allowIf("true"))}
	sequence := feed.put(webName, newer)
	config := func(c *sidecar.Config) { c.SnapshotFile, c.Meters = file, m }
	decides := func(t *testing.T, s *sidecar.Sidecar, get, post authz.Effect) {
		t.Helper()
		if ask(t, s, "web", "GET") != get || ask(t, s, "web", "POST") != post {
			t.Error("another version decides")
		}
	}
	check := func(t *testing.T, s *sidecar.Sidecar) {
		t.Helper()
		awaitStale(t, s, webName)
		decides(t, s, authz.Deny, authz.Allow)
		if got := m.gauge(t, "understudy.store.stale_policies"); got != 1 {
			t.Errorf("the metric is %d", got)
		}
		feed.awaitNode(t, func(n *adminpb.Node) bool { return namesReason(n, authz.ReasonStale, webName) })
		testkit.Await(t, "the newer version in the snapshot file", func() bool {
			saved, _, err := sidecar.ReadSnapshot(location, file)
			web := saved.Policies[webName]
			return err == nil && saved.Cursor.Sequence == 1 && web.Sequence == sequence && len(web.Experiments) == 1
		})
	}
	t.Run("running", func(t *testing.T) {
		s, stop := startWith(t, feed, newRecording(), config)
		defer stop()
		feed.awaitApplied(t, sequence)
		feed.goBack(1, map[authz.PolicyName]authz.PolicyState{webName: older})
		check(t, s)
	})
	t.Run("started again", func(t *testing.T) {
		m = newMeter()
		s, _ := start(t, feed, config)
		check(t, s)
		t.Run("another policy changes", func(t *testing.T) {
			feed.awaitApplied(t, feed.put(secondName, named(secondName, allowIf(onlyGET))))
			awaitStale(t, s, webName)
			decides(t, s, authz.Deny, authz.Allow)
		})
		t.Run("the older version is written again", func(t *testing.T) {
			feed.awaitApplied(t, feed.rewrite(webName))
			awaitStale(t, s)
			decides(t, s, authz.Allow, authz.Deny)
		})
	})
}

// TestADeletionThatTheStoreHasLostHolds: the policy comes back with the older data, and a node
// that starts without it does not follow that either, also while an experiment with another policy is compiled.
func TestADeletionThatTheStoreHasLostHolds(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "snapshot")
	feed := newFeed()
	second := named(secondName, allowIf(onlyGET))
	second.Experiments = []*adminpb.PolicyExperiment{{Name: string(secondName) + "/experiments/e", Etag: "1", Policy: policy("", allowIf("true"))}}
	feed.put(secondName, second)
	feed.put(webName, named(webName, allowIf("true")))
	older := feed.stored(webName)
	deleted := feed.put(webName, authz.PolicyState{})
	config := func(c *sidecar.Config) { c.SnapshotFile = file }
	s, stop := startWith(t, feed, newRecording(), config)
	defer stop()
	feed.awaitApplied(t, deleted)
	feed.goBack(1, map[authz.PolicyName]authz.PolicyState{webName: older, secondName: feed.stored(secondName)})
	awaitStale(t, s, webName)
	if ask(t, s, "web", "GET") != authz.Deny {
		t.Error("the deleted policy decides")
	}
	testkit.Await(t, "the snapshot file", func() bool {
		saved, _, err := sidecar.ReadSnapshot(location, file)
		return err == nil && saved.Cursor.Sequence == 1 && saved.Policies[webName].Sequence == deleted
	})
	stop()
	s, _ = start(t, feed, config)
	feed.awaitApplied(t, 1) // with the experiment, which is compiled after the policies
	awaitStale(t, s, webName)
	feed.awaitApplied(t, feed.rewrite(secondName))
	if got := s.Status(); ask(t, s, "web", "GET") != authz.Deny || got.Policies != 1 || !slices.Equal(got.Stale, []authz.PolicyName{webName}) {
		t.Error("the deleted policy decides after a start")
	}
	feed.awaitApplied(t, feed.rewrite(webName))
	awaitStale(t, s)
	if ask(t, s, "web", "GET") != authz.Allow {
		t.Error("the policy that was written again does not decide")
	}
}

// TestALostUndeleteOfAPolicyHolds: the store has it as deleted again.
func TestALostUndeleteOfAPolicyHolds(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, authz.PolicyState{})
	older := feed.stored(webName)
	s, _ := start(t, feed, nil)
	feed.awaitApplied(t, feed.put(webName, named(webName, allowIf(onlyGET))))
	feed.goBack(1, map[authz.PolicyName]authz.PolicyState{webName: older})
	awaitStale(t, s, webName)
	if ask(t, s, "web", "GET") != authz.Allow {
		t.Error("the policy decides no more")
	}
}

// TestWhatIsNoOlderVersionIsFollowed: nothing of it is worth an alarm.
func TestWhatIsNoOlderVersionIsFollowed(t *testing.T) {
	t.Parallel()
	annotated := func(text string) authz.PolicyState {
		s := named(webName, allowIf(onlyGET))
		s.Policy.Annotations = map[string]string{"a": text}
		return s
	}
	for name, c := range map[string]struct{ first, last authz.PolicyState }{
		"what decides is equal":             {annotated("1"), annotated("2")},
		"an experiment was lost":            {annotated("1"), authz.PolicyState{Policy: annotated("1").Policy, Experiments: []*adminpb.PolicyExperiment{experiment("e", "1", allowIf("true"))}}},
		"a deletion of one that is deleted": {authz.PolicyState{}, authz.PolicyState{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			feed := newFeed()
			feed.put(webName, c.first)
			older := feed.stored(webName)
			s, _ := start(t, feed, nil)
			feed.awaitApplied(t, feed.put(webName, c.last))
			loads := feed.loaded()
			feed.goBack(1, map[authz.PolicyName]authz.PolicyState{webName: older})
			testkit.Await(t, "what the store has now", func() bool { return feed.loaded() > loads && s.Status().Sequence == 1 })
			if stale := s.Status().Stale; len(stale) > 0 {
				t.Errorf("%v are taken for older", stale)
			}
		})
	}
}

package sidecar_test

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// goBack makes the feed a copy of the store that has only the first changes, up to a
// sequence, as a failover or an old backup is; 0 is a store that lost all of it.
func (f *memoryFeed) goBack(sequence int64, policies map[authz.PolicyName]authz.PolicyState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cursor = authz.Cursor{}
	if sequence > 0 {
		f.cursor = authz.Cursor{Sequence: sequence, Nonce: "n" + string(rune('0'+sequence))}
	}
	f.policies = policies
	if policies == nil {
		f.policies = make(map[authz.PolicyName]authz.PolicyState)
	}
	for s := range f.log {
		if s > sequence {
			delete(f.log, s)
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

const secondName = "projects/p1/locations/l1/policies/other"

func named(name authz.PolicyName, module string) authz.PolicyState {
	p := policy("", module)
	p.Name = string(name)
	return authz.PolicyState{Policy: p}
}

// ask returns the effect of a policy on a request.
func ask(t *testing.T, s *sidecar.Sidecar, id authz.PolicyID, method string) authz.Effect {
	t.Helper()
	r := request(method, nil)
	r.Policy = id
	return s.Check(t.Context(), r).Effect
}

func awaitMissing(t *testing.T, s *sidecar.Sidecar, want ...authz.PolicyName) {
	t.Helper()
	testkit.Await(t, "the policies that are missing", func() bool { return slices.Equal(s.Status().Missing, want) })
}

// TestAStoreThatComesBackEmptyErasesNothing loses everything under a sidecar that runs,
// then under one that starts from its file.
func TestAStoreThatComesBackEmptyErasesNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "snapshot")
	feed := newFeed()
	feed.put(webName, named(webName, allowIf(onlyGET)))
	feed.put(secondName, named(secondName, allowIf(onlyPOST)))
	m := newMeter()
	// The default would open everything.
	config := func(c *sidecar.Config) { c.SnapshotFile, c.Default, c.Meters = file, authz.Allow, m }
	check := func(t *testing.T, s *sidecar.Sidecar) {
		t.Helper()
		awaitMissing(t, s, secondName, webName)
		if ask(t, s, "web", "GET") != authz.Allow || ask(t, s, "web", "POST") != authz.Deny || ask(t, s, "other", "GET") != authz.Deny {
			t.Error("the last policies do not decide any more")
		}
		testkit.Await(t, "the snapshot file", func() bool {
			saved, _, err := sidecar.ReadSnapshot(location, file)
			return err == nil && len(saved.Policies) == 2 && saved.Cursor == authz.Cursor{}
		})
		if status := s.Status(); !status.Ready || status.Lost != nil {
			t.Errorf("the status is %+v", status)
		}
		if got := m.gauge(t, "understudy.store.missing_policies"); got != 2 {
			t.Errorf("the metric is %d", got)
		}
		node := feed.awaitNode(t, func(n *adminpb.Node) bool { return n.Error != nil && len(n.Policies) == 2 })
		checkMissingError(t, node, webName, secondName)
	}
	t.Run("running", func(t *testing.T) {
		s, _ := start(t, feed, config)
		feed.awaitApplied(t, 2)
		feed.goBack(0, nil)
		check(t, s)
	})
	t.Run("started again", func(t *testing.T) {
		m = newMeter()
		s, _ := start(t, feed, config)
		check(t, s)
		t.Run("one is stored again", func(t *testing.T) {
			feed.put(webName, named(webName, allowIf(onlyPOST)))
			awaitMissing(t, s, secondName)
			if ask(t, s, "web", "POST") != authz.Allow || ask(t, s, "other", "GET") != authz.Deny {
				t.Error("the stored policy and the missing one do not decide")
			}
		})
		t.Run("the loss of one is accepted", func(t *testing.T) {
			feed.put(secondName, authz.PolicyState{})
			awaitMissing(t, s)
			if ask(t, s, "other", "GET") != authz.Allow {
				t.Error("the deleted policy decides on")
			}
		})
	})
}

func checkMissingError(t *testing.T, node *adminpb.Node, names ...string) {
	t.Helper()
	st := status.FromProto(node.Error)
	if st.Code() != codes.DataLoss || !strings.Contains(st.Message(), "other, web") {
		t.Errorf("the node's error is %v", st)
	}
	var got []string
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.Reason == authz.ReasonMissing {
			got = append(got, info.Metadata["resource"])
		}
	}
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("the node's error names %v", got)
	}
}

// TestAFailoverLosesTheLastWrites keeps the policy whose creation was lost, and the newer version
// of the other one.
func TestAFailoverLosesTheLastWrites(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, named(webName, allowIf(onlyGET)))
	first := feed.stored(webName)
	feed.put(webName, named(webName, allowIf(onlyPOST)))
	feed.put(secondName, named(secondName, allowIf(onlyPOST)))
	s, _ := start(t, feed, nil)
	feed.awaitApplied(t, 3)
	feed.goBack(1, map[authz.PolicyName]authz.PolicyState{webName: first})
	awaitMissing(t, s, secondName)
	if ask(t, s, "web", "GET") != authz.Deny || ask(t, s, "web", "POST") != authz.Allow {
		t.Error("the older version decides")
	}
	if ask(t, s, "other", "POST") != authz.Allow {
		t.Error("the policy that was lost does not decide")
	}
	if got := s.Status().Stale; !slices.Equal(got, []authz.PolicyName{webName}) {
		t.Errorf("%v are older in the store", got)
	}
}

// TestADeletedPolicyIsNotMissing deletes the last policy on purpose, in every way in
// which a sidecar can learn of it.
func TestADeletedPolicyIsNotMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// before and after happen before and after the change, while the sidecar is away if
		// restart is set.
		restart       bool
		before, after func(*memoryFeed)
	}{
		"it follows": {},
		"it missed changes": {before: func(f *memoryFeed) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.trim = true
		}},
		"it was away": {restart: true},
		"it was away until the policy was purged": {restart: true, after: func(f *memoryFeed) {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.policies, webName)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "snapshot")
			config := func(c *sidecar.Config) { c.SnapshotFile, c.Default = file, authz.Allow }
			feed := newFeed()
			feed.put(webName, named(webName, allowIf(onlyGET)))
			s, stop := startWith(t, feed, newRecording(), config)
			stop = sync.OnceFunc(stop)
			defer stop()
			feed.awaitApplied(t, 1)
			if c.restart {
				stop()
			}
			if c.before != nil {
				c.before(feed)
			}
			sequence := feed.put(webName, authz.PolicyState{})
			if c.after != nil {
				c.after(feed)
			}
			if c.restart {
				s, stop = startWith(t, feed, newRecording(), config)
				defer stop()
			}
			feed.awaitApplied(t, sequence)
			if status := s.Status(); len(status.Missing) > 0 || status.Policies > 0 {
				t.Errorf("the status is %+v", status)
			}
			if ask(t, s, "web", "POST") != authz.Allow {
				t.Error("the deleted policy decides on")
			}
		})
	}
}

// TestAPolicyThatWasPurgedWithItsChangesIsMissing: nothing shows that it was deleted.
func TestAPolicyThatWasPurgedWithItsChangesIsMissing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "snapshot")
	feed := newFeed()
	feed.put(webName, named(webName, allowIf(onlyGET)))
	config := func(c *sidecar.Config) { c.SnapshotFile = file }
	_, stop := startWith(t, feed, newRecording(), config)
	feed.awaitApplied(t, 1)
	stop()
	feed.goBack(0, nil)
	feed.put(secondName, named(secondName, allowIf(onlyPOST)))
	s, _ := start(t, feed, config)
	awaitMissing(t, s, webName)
}

func TestANewLocationMissesNothing(t *testing.T) {
	t.Parallel()
	s, _ := start(t, newFeed(), func(c *sidecar.Config) { c.SnapshotFile = filepath.Join(t.TempDir(), "none") })
	testkit.Closed(t, "s is ready", s.Ready())
	if status := s.Status(); !status.Ready || status.Policies != 0 || len(status.Missing) > 0 {
		t.Errorf("the status is %+v", status)
	}
}

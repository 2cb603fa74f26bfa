package sidecar_test

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/diagnostics/logtest"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// TestOnlySelectedPoliciesAreHeld: a request that names another one is denied, whatever the default
// decision is, and whether there is such a policy or not.
func TestOnlySelectedPoliciesAreHeld(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, named(webName, allowIf(onlyGET)))
	feed.put(secondName, named(secondName, allowIf("true")))
	s, _ := start(t, feed, func(c *sidecar.Config) { c.Policies, c.Default = authz.Selection{"web", "team-*"}, authz.Allow })
	node := feed.awaitNode(t, func(n *adminpb.Node) bool { return n.AppliedSequence == 2 })
	if !slices.Equal(node.Policies, []string{webName}) || s.Status().Policies != 1 {
		t.Errorf("it holds %v", node.Policies)
	}
	if ask(t, s, "", "GET") != authz.Allow || ask(t, s, "web", "POST") != authz.Deny {
		t.Error("the policy that is held does not decide")
	}
	if ask(t, s, "team-none", "GET") != authz.Allow {
		t.Error("a policy that does not exist gets another than the default decision")
	}
	for _, id := range []authz.PolicyID{"other", "none"} {
		r := request("GET", nil)
		r.Policy = id
		d := s.Check(t.Context(), r)
		if d.Effect != authz.Deny || d.Failure != authz.FailureNotFollowed || !strings.Contains(d.Reason, "--policies") {
			t.Errorf("%s: got %+v", id, d)
		}
	}
	// A change of another policy is applied, for operations wait for it.
	feed.awaitApplied(t, feed.put(secondName, named(secondName, allowIf(onlyPOST))))
}

// snapshotOf returns a feed of two policies, which is down, and the snapshot file of a sidecar that has followed some of
// them, as many as want says.
func snapshotOf(t *testing.T, of authz.Selection, want int) (feed *memoryFeed, file string) {
	t.Helper()
	file, feed = filepath.Join(t.TempDir(), "snapshot"), newFeed()
	feed.put(webName, named(webName, allowIf(onlyGET)))
	feed.put(secondName, named(secondName, allowIf("true")))
	_, stop := startWith(t, feed, newRecording(), func(c *sidecar.Config) { c.SnapshotFile, c.Policies = file, of })
	feed.awaitApplied(t, 2)
	testkit.Await(t, "the snapshot file", func() bool {
		saved, _, err := sidecar.ReadSnapshot(location, file)
		return err == nil && len(saved.Policies) == want
	})
	stop()
	feed.setDown(true)
	return feed, file
}

// TestAPolicyThatIsSelectedNoMoreIsDropped: it is not missing, though the snapshot file has it.
func TestAPolicyThatIsSelectedNoMoreIsDropped(t *testing.T) {
	t.Parallel()
	feed, file := snapshotOf(t, nil, 2)
	s, _ := start(t, feed, func(c *sidecar.Config) { c.SnapshotFile, c.Policies = file, authz.Selection{"web"} })
	testkit.Closed(t, "s is ready", s.Ready())
	if n := s.Status().Policies; n != 1 {
		t.Errorf("%d policies are taken from the file", n)
	}
	feed.setDown(false)
	testkit.Await(t, "the store", func() bool { return s.Status().Lost == nil })
	if status := s.Status(); status.Policies != 1 || len(status.Missing) > 0 {
		t.Errorf("the status is %+v", status)
	}
}

// TestASnapshotOfOtherPoliciesIsNotUsed: it may lack some that the sidecar follows, which would be taken for absent ones.
func TestASnapshotOfOtherPoliciesIsNotUsed(t *testing.T) {
	t.Parallel()
	feed, file := snapshotOf(t, authz.Selection{"web"}, 1)
	log := &logtest.Buffer{}
	s, _ := start(t, feed, func(c *sidecar.Config) { c.SnapshotFile, c.Logger = file, slog.New(slog.NewTextHandler(log, nil)) })
	testkit.Await(t, "the file is refused", func() bool {
		return strings.Contains(log.String(), "it is of a sidecar that followed other policies (--policies web)")
	})
	select {
	case <-s.Ready():
		t.Error("it is ready")
	default:
	}
	feed.setDown(false)
	testkit.Closed(t, "s is ready", s.Ready())
	if n := s.Status().Policies; n != 2 {
		t.Errorf("%d policies are followed", n)
	}
}

// TestTheDefaultPolicyIsSelected: a sidecar that would deny whatever names no policy does not start.
func TestTheDefaultPolicyIsSelected(t *testing.T) {
	t.Parallel()
	if _, err := sidecar.New(sidecar.Config{Feed: newFeed(), Scope: authz.Scope{Location: location, Policies: authz.Selection{"other"}}, Node: "n", Policy: "web"}); err == nil {
		t.Error("there is no error")
	}
}
